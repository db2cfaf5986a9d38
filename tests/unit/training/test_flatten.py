from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from securefl.base.errors import ConfigError, UsageError
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import (
    dimension,
    frozen_digest,
    load_vector,
    to_vector,
    trained_parameters,
)
from securefl.training.models.parts.cnn import Cnn
from securefl.training.models.parts.custom import CustomModel


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))


def test_order_is_that_of_named_parameters() -> None:
    module = small()
    assert dimension(module) == 13
    numbers = np.arange(13, dtype=np.float32)
    load_vector(module, numbers)
    named = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    assert list(named) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert named["0.weight"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert named["0.bias"].tolist() == [6, 7, 8]
    assert named["2.weight"].tolist() == [[9, 10, 11]]
    assert named["2.bias"].tolist() == [12]
    vector = to_vector(module)
    assert vector.dtype == np.float32
    np.testing.assert_array_equal(vector, numbers)


def test_round_trip_of_a_real_model_is_exact() -> None:
    one = build_model(Cnn(), (8, 8), 10, seed=1)
    two = build_model(Cnn(), (8, 8), 10, seed=2)
    load_vector(two, to_vector(one))
    x = torch.ones(3, 8, 8)
    assert torch.equal(one(x), two(x))


def test_vectors_are_copies() -> None:
    module = small()
    vector = to_vector(module)
    vector[:] = 7
    assert not np.array_equal(to_vector(module), vector)
    load_vector(module, vector)
    vector[:] = 8
    assert np.all(to_vector(module) == 7)


def test_one_parameter_only_is_still_a_copy() -> None:
    module = nn.Linear(2, 1, bias=False)
    vector = to_vector(module)
    vector[:] = 7
    assert not np.any(to_vector(module) == 7)


def test_read_only_and_strided_vectors_load() -> None:
    module = small()
    frozen = np.arange(13, dtype=np.float32)
    frozen.flags.writeable = False
    load_vector(module, frozen)
    load_vector(module, np.arange(26, dtype=np.float32)[::2])
    assert to_vector(module)[1] == 2


def test_tied_weights_count_once() -> None:
    module = build_model(
        CustomModel(factory="tests.unit.training.factories:with_tied_weights"), (2,), 2, seed=1
    )
    assert dimension(module) == 4 + 2 + 2 + 4 + 2
    vector = np.arange(14, dtype=np.float32)
    load_vector(module, vector)
    np.testing.assert_array_equal(to_vector(module), vector)


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(12, dtype=np.float32),
        np.zeros(14, dtype=np.float32),
        np.zeros((13, 1), dtype=np.float32),
        np.zeros(13, dtype=np.float64),
    ],
)
def test_a_vector_that_does_not_fit_changes_nothing(
    vector: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> None:
    module = small()
    before = to_vector(module)
    with pytest.raises(UsageError, match="vector has"):
        load_vector(module, vector)
    np.testing.assert_array_equal(to_vector(module), before)


def backbone(name: str = "with_frozen_backbone", seed: int = 1) -> nn.Module:
    return build_model(CustomModel(factory=f"tests.unit.training.factories:{name}"), (4,), 3, seed=seed)


def test_what_is_frozen_is_no_part_of_the_vector_and_stays() -> None:
    module = backbone()
    assert dimension(module) == 97 * 3
    before = {name: weight.detach().clone() for name, weight in module.named_parameters()}
    load_vector(module, np.arange(97 * 3, dtype=np.float32))
    after = dict(module.named_parameters())
    assert [name for name in before if torch.equal(before[name], after[name])] == ["0.1.weight", "0.1.bias"]
    np.testing.assert_array_equal(to_vector(module), np.arange(97 * 3, dtype=np.float32))
    assert list(trained_parameters(module)) == ["1.weight", "1.bias"]
    with pytest.raises(UsageError, match="vector has"):
        load_vector(module, np.zeros(97 * 3 + 5 * 96, dtype=np.float32))


def test_the_digest_of_what_is_frozen() -> None:
    """Names, shapes and values of that count; the trained values, which the server sends, do not."""
    one = frozen_digest(backbone())
    assert len(one) == 32
    assert frozen_digest(small()) == b""
    trained = backbone()
    load_vector(trained, np.ones(97 * 3, dtype=np.float32))
    assert frozen_digest(trained) == one
    assert frozen_digest(trained.double().float()) == one
    others = [backbone(seed=2), backbone("with_another_backbone"), backbone("with_frozen_bias")]
    renamed = nn.Sequential(*backbone().children(), nn.Identity())
    assert frozen_digest(renamed) == one
    moved = nn.Sequential(nn.Identity(), *backbone().children())
    digests = {one, *map(frozen_digest, others), frozen_digest(moved)}
    assert len(digests) == 5


def test_floating_point_buffers_are_refused_both_ways() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with pytest.raises(ConfigError, match="GroupNorm"):
        to_vector(module)
    with pytest.raises(ConfigError, match="GroupNorm"):
        load_vector(module, np.zeros(10, dtype=np.float32))


def test_integer_buffers_are_allowed() -> None:
    module = small()
    module.register_buffer("steps", torch.zeros(1, dtype=torch.int64))
    assert to_vector(module).shape == (13,)
