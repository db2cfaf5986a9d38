"""Turned images, k starts, the model of least loss, and tests matched to tasks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Groups
from securefl.training.data.shards import Shard, turns_of
from securefl.training.models.catalogue import build_model
from securefl.training.models.parts.softmax import Softmax
from securefl.training.sgd.evaluation import Evaluator
from securefl.training.sgd.task_groups import (
    Chooser,
    GroupEvaluator,
    evaluator_of,
    initial_models,
    turn_images,
)

CPU = torch.device("cpu")


def corner(turn: int, samples: int = 8) -> Shard:
    """Two classes of 2 x 2 images, told apart by the pixel in one corner."""
    y = np.arange(samples, dtype=np.int64) % 2
    x = np.zeros((samples, 2, 2), dtype=np.float32)
    x[:, 0, 0] = 2.0 * y - 1.0
    return turn_images(Shard(x, y, 2, (2, 2)), turn)


def looking_at(pixel: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Parameters of a softmax regression on four pixels that goes by one of them."""
    weights = np.zeros((2, 4), dtype=np.float32)
    weights[0, pixel], weights[1, pixel] = -5.0, 5.0
    return np.concatenate([weights.ravel(), np.zeros(2, dtype=np.float32)])


def module() -> torch.nn.Module:
    return build_model(Softmax(), (2, 2), 2, 0)


def test_images_turn_a_quarter_anticlockwise() -> None:
    image = np.arange(4, dtype=np.float32).reshape(1, 2, 2)
    shard = Shard(image, np.zeros(1, dtype=np.int64), 2, (2, 2))
    assert turn_images(shard, 1).x.tolist() == [[[1.0, 3.0], [0.0, 2.0]]]
    assert turn_images(shard, 0) is shard
    with pytest.raises(ConfigError, match="samples of shape"):
        turn_images(Shard(np.zeros((1, 4), dtype=np.float32), shard.y, 2, (4,)), 1)


def test_parties_take_turns() -> None:
    names = tuple(PartyId(f"p{i}") for i in range(5))
    assert list(turns_of(Groups(count=3, tasks="rotations"), names).values()) == [0, 1, 2, 0, 1]
    assert turns_of(Groups(count=3), names) == {}
    uneven = Groups(count=3, tasks="rotations", sizes=(3, 1, 1))
    assert list(turns_of(uneven, names).values()) == [0, 0, 0, 1, 2]


def test_a_party_chooses_the_model_that_fits_its_images() -> None:
    # The corner goes from pixel 0 to 2 (below it), 3 and 1.
    models = np.concatenate([looking_at(pixel) for pixel in (0, 2, 3, 1)])
    for turn in range(4):
        assert Chooser(module(), corner(turn), CPU).choose(models) == turn
    assert Chooser(module(), corner(0), CPU).choose(np.full(20, np.nan, dtype=np.float32)) is None


def test_models_are_matched_to_rotations_whatever_their_order() -> None:
    groups = Groups(count=4, tasks="rotations")
    tests = GroupEvaluator(module(), corner(0), CPU, groups)
    models = [looking_at(pixel) for pixel in (3, 1, 0, 2)]
    assert tests.evaluate(np.concatenate(models)).accuracy == 1.0
    # Two models of one rotation: one of the others has nobody, and half of its samples are right by chance.
    models[0] = models[1]
    assert tests.evaluate(np.concatenate(models)).accuracy == pytest.approx(0.875)
    one = GroupEvaluator(module(), corner(0), CPU, Groups(count=2))
    assert one.evaluate(np.concatenate([looking_at(3), looking_at(0)])).accuracy == 1.0


def test_without_groups_all_is_as_before() -> None:
    text = 'name="a"\nparties=4\n[model]\ntype="softmax"\n[stop]\nrounds=1\n'
    text += "[secure_sum]\nthreshold=2\nmin_survivors=2\n"
    plain = parse_scenario(text, ())
    assert isinstance(evaluator_of(plain.groups, module(), corner(0), CPU, None), Evaluator)
    one = initial_models(plain, module(), corner(0), 0)
    two = initial_models(parse_scenario(text, ("groups.count=2",)), module(), corner(0), 0)
    np.testing.assert_array_equal(two[: len(one)], one)
    assert len(two) == 2 * len(one)
    assert not np.array_equal(two[len(one) :], one)
