"""Pictures out of opened sums of simulated clusters, through rounding and ring."""

from dataclasses import replace

import numpy as np
import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import RunId
from securefl.lab.privacy_attacks.laboratory.inversion import Inversion, compare_candidates, reconstruct
from securefl.runtime.simulation.federation import assemble
from securefl.runtime.simulation.shadows import one_cluster
from securefl.training.models.parts.mlp import Mlp
from securefl.training.sgd.inversion import Search
from tests.unit.audit.laboratory.scenarios import digits, opened_in_a_round, scenario


def inverted(size: int) -> Inversion:
    """The sum of so many parties with one picture each, after one step."""
    data = digits(40)
    one_step = scenario("training.epochs=1", "training.learning_rate=0.5", "model.hidden=[64]")
    held = replace(data, x_train=data.x_train[:size], y_train=data.y_train[:size])
    federation = assemble(one_cluster(one_step, size), RunId("0" * 32), 3, dataset=held)
    (mean,) = opened_in_a_round(federation)
    model, rows = Mlp(hidden=(64,)), np.arange(size)
    found = reconstruct(model, data, federation.initial, mean.update, rows, seed=1, search=Search(steps=20))
    return compare_candidates(data, found, rows, rows, seed=1)


def test_a_single_picture_is_read_off_and_a_crowd_hides() -> None:
    alone, crowd = inverted(1), inverted(12)
    assert alone.recognised == 1
    assert alone.mse < 1e-6
    assert alone.ssim > 0.99 > alone.blind_ssim
    assert crowd.mse > 0.01
    assert crowd.recognised < 0.6
    assert crowd.found.shape == crowd.originals.shape == (12, 8, 8)


def test_what_is_no_picture_is_refused() -> None:
    flat = digits(40)
    flat = replace(flat, x_train=flat.x_train.reshape(40, -1), input_shape=(64,))
    with pytest.raises(ConfigError, match="not pictures"):
        reconstruct(Mlp(hidden=(4,)), flat, np.zeros(1, np.float32), np.zeros(1), np.arange(2), seed=1)


def test_unrelated_pictures_are_found_where_the_cluster_holds_all_of_the_training_half() -> None:
    data, rows = digits(8), np.arange(8)
    found = compare_candidates(data, np.full((5, 8, 8), 0.5), rows, rows, seed=1)
    assert found.candidates == 5
    assert found.blind_recognised == 0
    assert found.blind_ssim > found.ssim


def test_one_picture_of_many_is_not_missed() -> None:
    data, rows = digits(90), np.arange(80)
    shown = data.standardise(data.x_train[70]).astype(np.float64) * data.std + data.mean
    found = compare_candidates(data, shown.reshape(1, 8, 8), rows, rows, seed=1, most=2)
    assert found.recognised == 1 / 80
    assert found.blind_recognised == 0
    assert found.matches[0].mse < 1e-6
    assert len(found.originals) == 2
