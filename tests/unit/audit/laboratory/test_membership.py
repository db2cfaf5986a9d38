"""Membership inference on small models: it finds what they memorised, and nothing where that is nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import scenarios
from securefl.base.errors import UsageError
from securefl.lab.privacy_attacks.laboratory.membership import ShadowScores, shadow_scores
from securefl.lab.privacy_attacks.roc import roc_of
from securefl.methods.feasibility.limits import check
from securefl.runtime.simulation.shadows import one_cluster
from securefl.scenario.load import load_scenario
from tests.unit.audit.attacks.shadows import each_in_turn
from tests.unit.audit.laboratory.scenarios import pool, scenario


def area(found: ShadowScores) -> float:
    """Of the curve of all models' records together, each model attacked by all others."""
    ratios, member = (
        np.concatenate(parts) for parts in zip(*each_in_turn(found.scores, found.member), strict=True)
    )
    return roc_of(ratios, member).area


def test_members_of_an_overfitted_model_are_found() -> None:
    told: list[int] = []
    found = shadow_scores(pool(80, "stop.rounds=4"), 10, seed=1, progress=told.append)
    assert told == list(range(1, 11))
    assert (found.member.sum(axis=1) == 40).all()
    # 800 scores: chance is 0.5 with a standard deviation of 0.02.
    assert area(found) > 0.6
    one = found.on(found.scores[0], found.member[0])
    assert one.shadows == 10


def test_nobody_is_found_in_models_that_were_not_trained() -> None:
    found = shadow_scores(pool(80, "training.learning_rate=1e-6", "stop.rounds=1"), 8, seed=1)
    assert abs(area(found) - 0.5) < 0.08


def test_one_cluster_ends_with_its_mean_update() -> None:
    held = replace(pool(40), scenario=one_cluster(scenario(), 1))
    alone = held.train(np.ones(40, dtype=np.bool_), seed=3)
    again = held.train(np.ones(40, dtype=np.bool_), seed=3)
    np.testing.assert_array_equal(alone, again)
    beyond = replace(held, initial=alone).train(np.ones(40, dtype=np.bool_), seed=3)
    assert np.abs(beyond - alone).max() > 1e-3
    assert one_cluster(scenario(), 3).parties == 3


@pytest.mark.parametrize("size", [5, 6])
def test_one_cluster_of_a_run_with_shared_noise_has_its_noise(size: int) -> None:
    """Whole, and after a dropout: h shares of the noise hide a record in it, as in the run."""
    whole = load_scenario(Path(scenarios.__file__).parent / "dp_mqtt.toml")
    cluster = one_cluster(whole, size)
    check(cluster)
    h = [one.secure_sum.min_survivors - one.secure_sum.colluders_per_cluster for one in (whole, cluster)]
    assert h == [3, 3]


def test_what_only_a_servers_messages_show_is_left_out() -> None:
    lies = 'behaviours=[{kind="isolating:DropsMates", victim="p00"}]'
    quick = ("training.epochs=1", "stop.rounds=1")
    everybody = np.ones(40, dtype=np.bool_)
    np.testing.assert_array_equal(
        pool(40, lies, *quick).train(everybody, seed=3), pool(40, *quick).train(everybody, seed=3)
    )


def test_a_mask_of_another_length_is_refused() -> None:
    with pytest.raises(UsageError, match="one entry per training record"):
        pool(40).train(np.ones(39, dtype=np.bool_), seed=1)
