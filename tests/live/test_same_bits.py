"""A run with seeded entropy and the simulation of the same scenario end with the same model, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from securefl.training.models.checkpoint import load_model
from tests.live.federated import Run, assert_sums_are_exact, run, simulate
from tests.live.scenarios import behaviour, write_scenario

pytestmark = pytest.mark.live

SEEDED = ("--insecure-seeded-entropy", "--seed", "7")


def assert_same_bits(scenario: Path, folder: Path, *settings: str, lab: bool = False) -> Run:
    """Run and simulate; compare models, losses and who was counted. Return the run."""
    overrides = [part for setting in settings for part in ("--set", setting)]
    real = run(scenario, folder / "run", *SEEDED, *overrides, *(["--lab"] if lab else []))
    twin = simulate(scenario, folder / "simulation", *SEEDED, *overrides)
    assert (real.exit_code, twin.exit_code) == (0, 0), real.stderr
    one, two = load_model(real.directory.model_file), load_model(twin.directory.model_file)
    assert one.keys() == two.keys()
    for name in one:
        assert one[name].tobytes() == two[name].tobytes(), name
    # What is refused besides wrong shares needs messages. Runs with a clip bound count no cut updates.
    one_outcome, two_outcome = ({**ended.summary["outcome"], "refusals": 0} for ended in (real, twin))
    for outcome in (one_outcome, two_outcome):
        assert outcome.pop("updates_beyond_range", 0) == 0
        # With [privacy], processes of a run keep failures to themselves.
        assert outcome.pop("failed_trainings", 0) == 0
    assert one_outcome == two_outcome
    for row, simulated in zip(real.rows, twin.rows, strict=True):
        for field in ("round", "accuracy", "loss", "update_norm", "survivors", "left_out", "clusters"):
            assert row[field] == simulated[field], (row["round"], field)
    return real


SCALED = behaviour("scale", "p01", factor=-10)
ATTACKS = (
    SCALED
    + behaviour("scale", "p02", factor=50)
    + behaviour("no-clip", "p02")
    + behaviour("label-flip", "p04", rounds=[1])
    + behaviour("wrong-share", "p03")
    + behaviour("garbage", "p00")
    + behaviour("replay", "p05")
)


def test_with_attacks_at_every_seam(tmp_path: Path) -> None:
    real = assert_same_bits(write_scenario(tmp_path, ATTACKS), tmp_path, "encoding.clip=0.5")
    other = simulate(tmp_path / "live.toml", tmp_path / "other", "--seed", "8", "--set", "encoding.clip=0.5")
    one, two = load_model(real.directory.model_file), load_model(other.directory.model_file)
    assert any(not np.array_equal(one[name], two[name]) for name in one), "the seed decides"


def test_with_dropouts_at_two_phases_and_sums_that_stay_closed(tmp_path: Path) -> None:
    """Most draws of three reclusterings of nine parties would expose one of them, once one is gone."""
    silence = behaviour("drop", "p01", phase="after-shares", rounds=[0])
    silence += behaviour("drop", "p06", phase="after-masked-input", rounds=[1])
    silence += behaviour("kill", "p08", phase="before-keys", rounds=[1])
    scenario = write_scenario(tmp_path, silence, parties=9, reclusterings=3, rounds=3)
    real = assert_same_bits(scenario, tmp_path)
    reasons = [lost["reason"] for row in real.rows for lost in row["clusters"]["lost"]]
    assert any(reason.startswith("kept closed by the leakage ledger") for reason in reasons)
    assert real.summary["server_view"]["single_updates"] == []
    assert real.summary["server_view"]["kept_closed"] > 0


def test_with_a_clip_that_follows_a_quantile(tmp_path: Path) -> None:
    """Six parties with noise; the clip of each round is that of the simulation, bit for bit."""
    silence = behaviour("drop", "p01", phase="after-shares", rounds=[1])
    scenario = write_scenario(tmp_path, silence, parties=6, rounds=2)
    real = assert_same_bits(
        scenario,
        tmp_path,
        "privacy={ unit = 'party', multiplier = 0.5, delta = 0.05, clip = { initial = 1.0, rate = 1.0 } }",
        "weighting.mode=ignore",
        "encoding.scale_bits=10",
        "deadlines.training=20",
    )
    clips = [dict(entry.fields)["clip"] for entry in real.transcript("server").of_kind("clip_moved")]
    assert len(clips) == len(set(clips)) == 2


def test_with_new_work_and_a_dropout(tmp_path: Path) -> None:
    """With lab files, so that each sum is known to hold the work of its own reclustering."""
    silence = behaviour("drop", "p04", phase="after-shares", rounds=[0])
    scenario = write_scenario(tmp_path, silence, parties=8, size=4, reclusterings=2)
    real = assert_same_bits(scenario, tmp_path, "clustering.new_work=true", lab=True)
    assert assert_sums_are_exact(real) == 2 * 2 * 2
    one, two = (real.upload("p01", 1, work) for work in range(2))
    assert not np.array_equal(one, two)


def test_with_a_rule_and_uneven_data(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, SCALED, parties=9)
    assert_same_bits(
        scenario,
        tmp_path,
        'aggregation.rule={ type = "krum", byzantine = 0 }',
        'data.partition={ type = "log-normal", sigma = 0.7 }',
        "weighting.mode=passthrough",
        "training.momentum=0.9",
        "server_optimiser.momentum=0.5",
    )


def test_twelve_parties_whose_counts_are_truncated_while_one_lies(tmp_path: Path) -> None:
    """The liar scales its update as well; the others train on no more samples than they weigh for."""
    lie = behaviour("false-count", "p03", samples=10_000_000) + behaviour("scale", "p03", factor=-4)
    silence = behaviour("drop", "p07", phase="after-shares", rounds=[1])
    scenario = write_scenario(tmp_path, lie + silence, parties=12)
    real = assert_same_bits(
        scenario,
        tmp_path,
        "weighting={ mode = 'truncate', alpha = 0.1, use = 'truncated' }",
        'aggregation.rule={ type = "trimmed-mean", trim = "weight", beta = 0.25 }',
        'data.partition={ type = "log-normal", sigma = 1.5 }',
        "model={ type = 'mlp', hidden = [16], dropout = 0.2 }",
        "training={ batch_fraction = 0.1, steps = 2, device = 'cpu' }",
    )
    drawn = real.transcript("server").of_kind("clusters_drawn")
    declared = [dict(entry.fields)["counts"] for entry in drawn]
    assert [dict(counts)["p03"] for counts in declared] == [10_000_000] * 2  # type: ignore[arg-type]


def test_with_data_of_the_servers_own(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, SCALED, parties=9, reclusterings=2)
    rule = 'aggregation.rule={ type = "zeno++", batch = 32 }'
    real = assert_same_bits(scenario, tmp_path, rule, "data.server_fraction=0.1")
    for row in real.rows:
        assert row["clusters"]["kept"]
        assert row["clusters"]["rejected"]


def test_with_trust_in_parties_from_round_to_round(tmp_path: Path) -> None:
    """Two samples of each class; who is selected depends on what its members earned in all rounds before."""
    scenario = write_scenario(tmp_path, SCALED, parties=8, size=2, reclusterings=2, rounds=3)
    rule = 'aggregation.rule={ type = "inner-product", gamma = 0.5, momentum = 0.5 }'
    real = assert_same_bits(scenario, tmp_path, rule, "data.server_per_class=2")
    for row in real.rows:
        assert len(row["clusters"]["kept"]) == len(row["clusters"]["rejected"]) == 4


def test_an_active_server_and_another_model(tmp_path: Path) -> None:
    scenario = write_scenario(
        tmp_path,
        behaviour("drop", "p00", phase="after-freeze", rounds=[0]),
        parties=8,
        size=4,
        threshold=3,
        min_survivors=3,
        server="active",
    )
    assert_same_bits(scenario, tmp_path, 'model={ type = "mlp", hidden = [32] }', "encoding.ring_bits=64")


COALITIONS = """
[[behaviours]]
kind = "fall-of-empires"
parties = ["p00", "p03", "p07"]
actors = 2
factor = -2
[[behaviours]]
kind = "alie"
parties = ["p01", "p04", "p08"]
z = 1.5
honest_until = 0.4
[[behaviours]]
kind = "gaussian"
parties = ["p05"]
std = 0.01
add = true
"""


def test_with_coalitions_that_tell_each_other_what_they_trained(tmp_path: Path) -> None:
    """One places its actors; in the other, honest at first, a member drops out. New work, trimmed mean."""
    attacks = COALITIONS + behaviour("drop", "p04", phase="after-shares", rounds=[1])
    attacks += behaviour("label-shift", "p02", shift=3)
    scenario = write_scenario(tmp_path, attacks, parties=9, reclusterings=2)
    trimmed = 'aggregation.rule={ type = "trimmed-mean", trim = 1 }'
    assert_same_bits(scenario, tmp_path, "clustering.new_work=true", trimmed)


DP_SGD = (
    "training.dp_sgd={ momentum = 0.1, carry = 'global' }",
    "training.batch_size=16",
    "weighting.mode=ignore",
    "encoding.scale_bits=13",
    "privacy.unit=record",
    "privacy.placement=threshold",
    "privacy.multiplier=1.2",
    "secure_sum.colluders=1",
    "secure_sum.colluders_per_cluster=1",
    "deadlines.submit=12",  # a training that takes longer, on a busy machine, sends zeros
)


def test_with_shared_noise_dp_sgd_and_a_dropout(tmp_path: Path) -> None:
    """The scenario is settled by the data in both; one party skips its noise, another is scaled."""
    shown = behaviour("drop", "p05", phase="after-shares", rounds=[1])
    shown += behaviour("no-noise", "p02") + behaviour("scale", "p03", factor=-2)
    scenario = write_scenario(tmp_path, shown, parties=8, size=4, threshold=3, min_survivors=3, rounds=3)
    real = assert_same_bits(scenario, tmp_path, *DP_SGD, lab=True)
    assert assert_sums_are_exact(real) == 3 * 2
    privacy = real.directory.read_scenario().privacy
    assert (privacy.settled, privacy.records) == (True, 75)
    assert real.summary["outcome"]["epsilon"] is None, "seeded noise hides nothing"
    for row in real.rows:
        assert set(row["epsilon"].values()) == {None}
    # What p02 sends has the size of a signal, what the others send that of noise.
    spread = {name: float(np.std(real.upload(name, 0))) for name in ("p01", "p02")}
    assert spread["p02"] < spread["p01"] / 2
