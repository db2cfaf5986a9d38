"""Per-example gradients, their lengths, products and sums, against a backward pass for each example."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from securefl.base.arrays import F64, I64, Inputs
from securefl.base.errors import ConfigError
from securefl.training.dpsgd.examples import Examples
from securefl.training.dpsgd.layers import Layers, layers_of
from securefl.training.dpsgd.ways import Mapped, OneByOne, way_for
from tests.unit.training import dp_models
from tests.unit.training.dp_models import CLASSES, SHAPE, images, made, slow_gradients, text, text_model

Make = Callable[[], nn.Module]

BY_LAYERS: tuple[Make, ...] = (
    dp_models.dense,
    lambda: dp_models.dense(5),
    lambda: dp_models.dense(6, 4),
    dp_models.elu,
    dp_models.grouped,
    dp_models.pooled,
    dp_models.paper_cnn,
    dp_models.paper_residual,
)
BY_MAPPING: tuple[Make, ...] = (
    dp_models.skipping,
    dp_models.tied,
    dp_models.in_place,
    dp_models.frozen,
    dp_models.hooked,
    dp_models.depthwise,
    dp_models.same_padding,
)
SAMPLE, LABEL = torch.ones(1, *SHAPE), torch.zeros(1, dtype=torch.int64)


def check(examples: Examples, expected: F64) -> None:
    """Everything that can be asked of ``examples``, of all rows and of some."""
    count, length = expected.shape
    np.testing.assert_allclose(examples.squares, (expected**2).sum(axis=1), rtol=1e-4)
    other = np.random.default_rng(5).standard_normal((length,))
    factors = np.random.default_rng(6).standard_normal((count,))
    for rows in (slice(0, count), slice(2, 5)):
        dots = examples.dots(torch.from_numpy(other), rows)
        size = np.linalg.norm(expected[rows], axis=1).max() * np.linalg.norm(other)
        np.testing.assert_allclose(dots, expected[rows] @ other, rtol=1e-4, atol=1e-5 * size)
        total = torch.ones(length, dtype=torch.float64)
        examples.add(torch.from_numpy(factors[rows]), rows, total)
        found = total.numpy() - 1
        np.testing.assert_allclose(found, factors[rows] @ expected[rows], rtol=1e-4, atol=1e-5)


def tensors(x: Inputs, y: I64) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(x), torch.from_numpy(y)


@pytest.mark.parametrize("make", BY_LAYERS)
def test_sequences_of_known_layers(make: Make) -> None:
    module = made(make)
    x, y = images(9)
    way = way_for(module, SAMPLE, LABEL)
    assert isinstance(way, Layers)
    check(way.examples(*tensors(x, y)), slow_gradients(module, x, y))


@pytest.mark.parametrize("make", BY_MAPPING)
def test_anything_else_is_mapped(make: Make) -> None:
    module = made(make)
    x, y = images(9)
    way = way_for(module, SAMPLE, LABEL)
    assert isinstance(way, Mapped)
    check(way.examples(*tensors(x, y)), slow_gradients(module, x, y))


@pytest.mark.parametrize("make", [dp_models.Branching, dp_models.twice])
def test_what_cannot_be_mapped_goes_one_by_one(make: Make) -> None:
    module = made(make)
    x, y = images(9)
    way = way_for(module, SAMPLE, LABEL)
    assert isinstance(way, OneByOne)
    check(way.examples(*tensors(x, y)), slow_gradients(module, x, y))


def test_of_a_text_a_record_is_a_sequence() -> None:
    module = text_model()
    x, y = text(6)
    way = way_for(module, torch.zeros(1, 7, dtype=torch.int64), torch.zeros(1, 7, dtype=torch.int64))
    assert isinstance(way, OneByOne), "mapped, it takes two to five times as long"
    check(way.examples(*tensors(x, y)), slow_gradients(module, x, y))


@pytest.mark.parametrize("make", [*BY_LAYERS, *BY_MAPPING])
def test_one_by_one_is_right_for_all(make: Make) -> None:
    module = made(make)
    x, y = images(5)
    check(OneByOne(module).examples(*tensors(x, y)), slow_gradients(module, x, y))


def test_a_dense_layer_on_sequences_sums_over_positions() -> None:
    module = made(lambda: nn.Sequential(nn.Linear(8, 4), nn.Flatten(), nn.Linear(32, CLASSES)))
    way = layers_of(module)
    assert way is not None
    x, y = images(6)
    check(way.examples(torch.from_numpy(x), torch.from_numpy(y)), slow_gradients(module, x, y))


def test_lengths_and_sums_come_from_the_same_numbers() -> None:
    """To 1e-12: the bound on one example rests on it, however single precision rounds."""
    for make in BY_LAYERS:
        module = made(make)
        x, y = images(4)
        way = layers_of(module)
        assert way is not None
        examples = way.examples(*tensors(x, y))
        for row, square in enumerate(examples.squares):
            total = torch.zeros(sum(w.numel() for w in module.parameters()), dtype=torch.float64)
            examples.add(torch.ones(1, dtype=torch.float64), slice(row, row + 1), total)
            assert float(total @ total) == pytest.approx(square, rel=1e-12)
            (dot,) = examples.dots(total, slice(row, row + 1))
            assert float(dot) == pytest.approx(square, rel=1e-12)


@pytest.mark.parametrize("make", [*BY_LAYERS, dp_models.skipping, dp_models.Branching])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_a_gradient_that_is_not_finite_counts_as_zero_and_touches_no_other(make: Make, bad: float) -> None:
    module = made(make)
    x, y = images(7)
    poisoned = x.copy()
    poisoned[3] = bad * np.sign(x[3])
    found = way_for(module, SAMPLE, LABEL).examples(*tensors(poisoned, y))
    expected = slow_gradients(module, x, y)
    if found.squares[3] != 0:
        assert np.isfinite(found.squares[3]), "large, but not too large"
        assert bad == 3e38
        return
    expected[3] = 0
    check(found, expected)


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.SyncBatchNorm])
def test_batch_norm_is_refused_by_name(kind: type[nn.Module]) -> None:
    norm = kind(6, track_running_stats=False)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), norm, nn.Linear(6, CLASSES))
    with pytest.raises(ConfigError, match=rf"model: 2 is a {kind.__name__}.*GroupNorm"):
        way_for(module, SAMPLE, LABEL)


@pytest.mark.parametrize(
    ("kind", "why"),
    [(dp_models.Centring, "depends on others"), (dp_models.Whitening, "fails on a single example")],
)
def test_so_is_whatever_else_mixes_examples(kind: Make, why: str) -> None:
    module = made(kind)
    with pytest.raises(ConfigError, match=f"model: .*{why}"):
        way_for(module, SAMPLE, LABEL)
    assert module.training
