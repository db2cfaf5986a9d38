"""A party killed and started again within a round, at each broker: the round does not wait for it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.live.deployed import signal_to, site, stopped
from tests.live.federated import BROKERS, LIMIT
from tests.live.forked import Forked
from tests.live.test_resumed import until_recorded

pytestmark = pytest.mark.live

HOUR = tuple(
    word
    for step in ("reveal", "keys", "shares", "training", "certify", "release")
    for word in ("--set", f"deadlines.{step}=3600")
)


def arrivals(server: Forked) -> int:
    """Return how often p05, or the broker for it, has told the server that it is there or gone."""
    return server.stderr.read_text().count("/status/p05")


def until_arrived(server: Forked, count: int) -> None:
    while arrivals(server) < count:
        server.process.join(0.02)
        assert server.process.exitcode is None, server.wait(LIMIT)


@pytest.mark.parametrize("broker", BROKERS)
def test_a_party_that_returns_before_it_is_missed_costs_no_deadline(broker: str, tmp_path: Path) -> None:
    """The others stand still until its new process is there. Each deadline is an hour."""
    with site(tmp_path, broker, parties=6, size=3) as place:
        parties = place.start_parties(*HOUR, training=0.5)
        server = place.start("server", *HOUR, before=("--log-level", "debug"))
        until_recorded(place, server, kind="step_reached", round=1, step="training")
        killed = parties.pop("p05")
        with stopped(parties):
            known = arrivals(server)
            signal_to(killed, signal.SIGKILL)
            killed.process.join(LIMIT)
            until_arrived(server, known + 1)
            again = place.start("p05", *HOUR)
            until_arrived(server, known + 2)
        for program in (server, again, *parties.values()):
            code, said, _ = program.wait(LIMIT)
            assert code == 0, said
        assert place.counted() == [6, 5, 6]
