"""The whole matrix of outages, `make brokers`: hours. What has been done by this code is not done again."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from securefl.runtime.launch import process
from securefl.runtime.transport.broker import BrokerKind, find_mosquitto
from tests.live import dawdling, federated, outage_matrix
from tests.live.federated import run
from tests.live.outage_matrix import (
    AWAY,
    DEADLINES,
    EVERY,
    JOIN,
    PARTIES,
    SERIES,
    Case,
    Outcome,
    cases,
    series_name,
)
from tests.live.outages import OUTSIDE, Ground, broken, once_each
from tests.live.scenarios import write_scenario

pytestmark = [pytest.mark.live, pytest.mark.brokers]

LEAST_RESTARTS = 3
"""Of a series: training alone takes a minute."""


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
        planned=len(acts),
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


@pytest.mark.parametrize(("kind", "persistent"), SERIES)
def test_a_broker_that_restarts_all_the_time_costs_nobody_a_round(
    kind: BrokerKind, persistent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 rounds of 2 s of training each; every 20 s SIGTERM, and 3 s later it is there again."""
    name = series_name(kind, persistent=persistent)
    if kind == "mosquitto" and find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    before = outage_matrix.done().get(name)
    if before is not None and before.good and before.code == outage_matrix.code():
        pytest.skip(f"done before: {before}")
    monkeypatch.setattr(process, "party", dawdling.for_two_seconds)
    monkeypatch.setattr(federated, "LIMIT", 600.0)
    ground, over, restarts = Ground(kind, tmp_path, persistent), threading.Event(), 0

    def restarting() -> None:
        nonlocal restarts
        ground.start()
        begun.set()
        while not over.wait(EVERY - AWAY):
            ground.suffer("restart", AWAY)
            restarts += 1
        ground.stop()

    begun, began = threading.Event(), time.monotonic()
    path = write_scenario(tmp_path, threshold=3, min_survivors=3, server="active", rounds=30)
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(restarting)
        begun.wait()
        try:
            ended = run(path, tmp_path / "run", "--broker", str(ground.brokers))
        finally:
            over.set()
        going.result()
    survivors = [len(row["survivors"]) for row in ended.rows]
    outcome = Outcome(
        case=name,
        code=outage_matrix.code(),
        kind=kind,
        persistent=persistent,
        fault=f"restart every {EVERY:g} s",
        down=AWAY,
        steps=restarts,
        planned=LEAST_RESTARTS,
        rounds=len(survivors),
        void=survivors.count(0),
        survivors=min(survivors),
        exit_code=ended.exit_code,
        seconds=round(time.monotonic() - began, 1),
    )
    outage_matrix.note(outcome)
    assert ended.exit_code == 0, ended.stderr
    assert survivors == [PARTIES] * 30
    assert outcome.good


def scenario(folder: Path, case: Case, rounds: int) -> Path:
    path = write_scenario(folder, threshold=3, min_survivors=3, server="active", rounds=rounds)
    head, rest = path.read_text().split("[deadlines]")
    deadlines = [f"{step} = {seconds / case.scale:g}" for step, seconds in DEADLINES.items()]
    path.write_text(
        "\n".join([head + "[deadlines]", f"join = {JOIN:g}", *deadlines, "[stop]" + rest.split("[stop]")[1]])
    )
    return path
