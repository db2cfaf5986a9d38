"""A server that is started again with the same ``--run`` and ``--out``: refused, nothing overwritten."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.live.deployed import contents, signal_to, site, until_said
from tests.live.federated import BROKERS, LIMIT

pytestmark = pytest.mark.live


@pytest.mark.parametrize("broker", BROKERS)
def test_a_server_started_again_on_a_run_is_refused_and_overwrites_nothing(
    broker: str, tmp_path: Path
) -> None:
    """Killed after a round, while parties still train for the next one."""
    with site(tmp_path, broker) as place:
        parties = place.start_parties(training=1.0)
        first = place.start("server")
        until_said(first, "round 0:")
        signal_to(first, signal.SIGKILL)
        first.process.join(LIMIT)
        left = contents(place.out("server"))
        assert {"model.safetensors", "transcripts/server.jsonl"} <= left.keys()
        code, said, complaint = place.start("server").wait(LIMIT)
        assert (code, said, len(complaint.splitlines())) == (2, "", 1), complaint
        assert "no run is resumed, and nothing is overwritten" in complaint
        assert "model.safetensors" in complaint or "server.jsonl" in complaint
        assert contents(place.out("server")) == left
        for party in parties.values():
            signal_to(party, signal.SIGTERM)
            assert party.wait(LIMIT)[0] == 3
