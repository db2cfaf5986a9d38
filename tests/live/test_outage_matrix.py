"""The whole matrix of outages, `make brokers`: hours. What has been done by this code is not done again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from securefl.runtime.launch import process
from securefl.runtime.transport.broker import find_mosquitto
from tests.live import dawdling, federated, outage_matrix
from tests.live.federated import run
from tests.live.outage_matrix import DEADLINES, JOIN, PARTIES, Case, Outcome, cases
from tests.live.outages import OUTSIDE, Ground, broken, once_each
from tests.live.scenarios import write_scenario

pytestmark = [pytest.mark.live, pytest.mark.brokers]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_broker_that_is_lost_in_any_step_costs_nobody_a_round(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case.kind == "mosquitto" and find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    before = outage_matrix.done().get(case.name)
    if before is not None and before.good and before.code == outage_matrix.code():
        pytest.skip(f"done before: {before}")
    monkeypatch.setattr(process, "party", dawdling.main)
    monkeypatch.setattr(federated, "LIMIT", 600.0 + len(case.steps) * (case.down + 60.0))
    ground = Ground(case.kind, tmp_path, case.persistent, addresses=2 if case.fault == "swap" else 1)
    acts = once_each(ground, case.fault, case.down, case.steps)
    rounds = 1 + sum(step not in OUTSIDE for step in case.steps)
    began = time.monotonic()
    with broken(ground, acts) as done:
        ended = run(scenario(tmp_path, case, rounds), tmp_path / "run", "--broker", str(ground.brokers))
    survivors = [len(row["survivors"]) for row in ended.rows]
    outcome = Outcome(
        case=case.name,
        code=outage_matrix.code(),
        kind=case.kind,
        persistent=case.persistent,
        fault=case.fault,
        down=case.down,
        steps=len(done),
        rounds=len(survivors),
        void=survivors.count(0),
        survivors=min(survivors),
        exit_code=ended.exit_code,
        seconds=round(time.monotonic() - began, 1),
    )
    outage_matrix.note(outcome)
    assert ended.exit_code == 0, ended.stderr
    assert sorted(done) == sorted(acts), "a step was not seen"
    assert survivors == [PARTIES] * rounds
    assert outcome.good


def scenario(folder: Path, case: Case, rounds: int) -> Path:
    path = write_scenario(folder, threshold=3, min_survivors=3, server="active", rounds=rounds)
    head, rest = path.read_text().split("[deadlines]")
    deadlines = [f"{step} = {seconds / case.scale:g}" for step, seconds in DEADLINES.items()]
    path.write_text(
        "\n".join([head + "[deadlines]", f"join = {JOIN:g}", *deadlines, "[stop]" + rest.split("[stop]")[1]])
    )
    return path
