"""Brokers are killed, restarted and given up for others in the midst of steps: runs go on, with all parties.

The whole matrix is `make brokers` (tests/live/test_outage_matrix.py); this is a part of it, without waiting.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.runtime.transport.broker import BrokerKind, find_mosquitto
from tests.live.federated import Run, events, run
from tests.live.outages import OUTSIDE, Fault, Ground, broken, once_each
from tests.live.scenarios import write_scenario

pytestmark = pytest.mark.live

needs_mosquitto = pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed")


def suffered(folder: Path, ground: Ground, fault: Fault, steps: tuple[str, ...], down: float = 0.0) -> Run:
    """A run whose broker does that in each of these steps, each in a round of its own, and one round more."""
    acts = once_each(ground, fault, down, steps)
    rounds = 1 + sum(step not in OUTSIDE for step in steps)
    scenario = write_scenario(folder, threshold=3, min_survivors=3, server="active", rounds=rounds)
    with broken(ground, acts) as done:
        ended = run(scenario, folder / "run", "--broker", str(ground.brokers))
    assert sorted(done) == sorted(acts), "a step was not seen"
    return ended


@pytest.mark.parametrize(
    ("kind", "persistent", "fault", "steps"),
    [
        pytest.param("mosquitto", False, "kill", ("join", "keys", "release"), marks=needs_mosquitto),
        pytest.param("mosquitto", False, "swap", ("reveal", "inputs", "goodbye"), marks=needs_mosquitto),
        pytest.param("mosquitto", True, "kill", ("model", "shares", "certify"), marks=needs_mosquitto),
        pytest.param("mosquitto", True, "restart", ("hello", "training"), marks=needs_mosquitto),
        ("embedded", False, "kill", ("hello", "shares", "goodbye")),
        ("embedded", False, "swap", ("join", "inputs", "certify")),
    ],
)
def test_a_broker_that_is_lost_in_the_midst_of_a_step_costs_nobody_a_round(
    kind: BrokerKind, persistent: bool, fault: Fault, steps: tuple[str, ...], tmp_path: Path
) -> None:
    ground = Ground(kind, tmp_path, persistent, addresses=2 if fault == "swap" else 1)
    ended = suffered(tmp_path, ground, fault, steps)
    assert ended.exit_code == 0, ended.stderr
    assert [len(row["survivors"]) for row in ended.rows] == [6] * len(ended.rows)
    assert len(ended.rows) == 1 + len(set(steps) - {*OUTSIDE})
    said = [event["event"] for event in events(ended.stdout)]
    assert not {"draw_voided", "round_skipped", "instance_retried"} & set(said)
