"""CrypTen sums between real processes over real brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from securefl.runtime.launch import process
from securefl.training.models.checkpoint import load_model
from tests.live import dying
from tests.live.federated import BROKERS, PATIENT, assert_sums_are_exact, events, run, simulate
from tests.live.scenarios import behaviour, write_scenario

pytestmark = pytest.mark.live

CRYPTEN = ("--set", "secure_sum.kind=crypten")


@pytest.mark.parametrize("broker", BROKERS)
def test_the_scenario_reaches_the_quickstart_s_accuracy_and_starts_sums_over(
    broker: str, tmp_path: Path
) -> None:
    ended = run(Path("crypten"), tmp_path / "run", "--broker", broker, *PATIENT)
    assert ended.exit_code == 0, ended.stderr
    assert ended.summary["outcome"]["accuracy"] >= 0.90
    everybody = {f"p{i:02d}" for i in range(12)}
    for row in ended.rows:
        expected = everybody - ({"p03"} if row["round"] in {2, 5} else set())
        assert set(row["survivors"]) == expected
        assert len(row["clusters"]["opened"]) == 4


def test_clusters_of_four_end_with_the_bits_of_a_masked_run(tmp_path: Path) -> None:
    """A real CrypTen run, in which one party dies, against the simulation of its masked twin."""
    kills = behaviour("kill", "p05", phase="after-keys", rounds=[1])
    scenario = write_scenario(tmp_path, kills, parties=12, size=4)
    seeded = ("--insecure-seeded-entropy", "--seed", "7")
    real = run(scenario, tmp_path / "run", *seeded, *CRYPTEN, "--lab")
    twin = simulate(scenario, tmp_path / "simulation", *seeded)
    assert (real.exit_code, twin.exit_code) == (0, 0), real.stderr
    one, two = load_model(real.directory.model_file), load_model(twin.directory.model_file)
    assert {name: one[name].tobytes() for name in one} == {name: two[name].tobytes() for name in two}
    assert assert_sums_are_exact(real) == 6
    assert [row["survivors"] for row in real.rows] == [row["survivors"] for row in twin.rows]


def test_a_kill_at_each_phase_ends_in_a_new_attempt_or_a_lost_cluster(tmp_path: Path) -> None:
    phases = ["before-keys", "after-keys", "after-masked-input", "after-freeze"]
    kills = [behaviour("kill", f"p{i:02d}", phase=phase, rounds=[i]) for i, phase in enumerate(phases)]
    scenario = write_scenario(tmp_path, "".join(kills), parties=12, size=4, rounds=5)
    ended = run(scenario, tmp_path / "run", *CRYPTEN, "--lab")
    assert ended.exit_code == 0, ended.stderr
    assert assert_sums_are_exact(ended) > 0
    # Silent before its share is out: the others open without it. Later: its cluster is lost, and no other.
    assert [len(row["clusters"]["lost"]) for row in ended.rows] == [0, 0, 1, 1, 0]
    counted = [len(row["survivors"]) for row in ended.rows]
    assert counted[:3] == [11, 10, 5]
    assert counted[3] in {4, 5}
    assert counted[4] == 8


def test_a_dealer_that_is_killed_costs_sums_and_then_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its death is announced, so that nobody waits for the end of training (60 s)."""
    monkeypatch.setattr(process, "dealer", dying.main)
    settings = ("behaviours=[]", "parties=3", "training.epochs=1", "stop.rounds=6", "expect=[]")
    short = [word for setting in settings for word in ("--set", setting)]
    ended = run(Path("crypten_validated"), tmp_path / "run", *short, *PATIENT)
    assert ended.exit_code == 3, ended.stderr
    assert [len(row["clusters"]["opened"]) for row in ended.rows] == [1, 0, 0, 0]
    lost = ended.rows[1]["left_out"]
    assert {out["reason"] for out in lost} == {"its sum was lost: dealer sent no triples for 3 members"}
    assert len(lost) == 3
    died = [event for event in events(ended.stdout) if "dealer died (signal 9)" in str(event)]
    assert len(died) == 1


def test_validation_leaves_an_attacker_out(tmp_path: Path) -> None:
    """With processes, a dealer among them, and weights from declared counts; the scenario has 12 parties."""
    who = {"parties": ["p02"]}
    attack = [{"kind": "scale", "factor": -10, **who}, {"kind": "no-clip", **who}]
    shown = json.dumps(attack).replace(":", " =")
    settings = [f"behaviours={shown}", "parties=6", "stop.rounds=2", "expect=[]"]
    short = [word for setting in settings for word in ("--set", setting)]
    ended = run(Path("crypten_weighted"), tmp_path / "run", *short, *PATIENT)
    assert ended.exit_code == 0, ended.stderr
    for row in ended.rows:
        assert {"p02": "its update was refused as too long"}.items() <= {
            out["party"]: out["reason"] for out in row["left_out"]
        }.items()
        assert (row["projections"], row["measured"]) == (6 * 64, 6)
    told = ended.summary["server_view"]
    assert (told["projections_to_dealer_and_evaluator"], told["bits_to_deviating_evaluators"]) == (
        2 * 6 * 64,
        2 * 6,
    )
