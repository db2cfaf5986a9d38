"""Convolutional models whose samples do not see each other: published sizes, limits, gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from securefl.base.errors import ConfigError
from securefl.scenario.model import Model
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import check_averageable, dimension
from securefl.training.models.parts.cnn import Cnn
from securefl.training.models.parts.group_norm_cnn import GroupNormCnn
from securefl.training.models.parts.mlp import Mlp
from securefl.training.models.parts.residual_cnn import ResidualCnn

SMALL = GroupNormCnn(channels=(4, 6), kernel=3, groups=2, pool=2, dense=5)
SMALL_RESIDUAL = ResidualCnn(channels=4, blocks=2, groups=2, dense=5)


@pytest.mark.parametrize(
    ("config", "input_shape", "classes", "published"),
    [
        (GroupNormCnn(), (1, 28, 28), 10, 21_802),
        (Mlp(hidden=(32,), activation="elu"), (1, 28, 28), 10, 25_450),
        (ResidualCnn(), (3, 64, 64), 8, 33_736),
    ],
)
def test_networks_of_the_privacy_paper_have_the_size_that_it_states(
    config: Model, input_shape: tuple[int, ...], classes: int, published: int
) -> None:
    assert dimension(build_model(config, input_shape, classes, seed=1)) == published


def test_table_7_layer_by_layer() -> None:
    model = build_model(GroupNormCnn(), (1, 28, 28), 10, seed=1)
    kinds = [type(layer).__name__ for layer in model.children()][1:]
    block = ["Conv2d", "ELU", "GroupNorm"]
    assert kinds == [*block * 3, "AdaptiveAvgPool2d", "Flatten", "Linear", "ELU", "Linear"]
    x = torch.randn(2, 1, 28, 28)
    sides = []
    for layer in model.children():
        x = layer(x)
        if isinstance(layer, nn.Conv2d | nn.AdaptiveAvgPool2d):
            sides.append(tuple(x.shape[1:]))
    assert sides == [(16, 24, 24), (16, 20, 20), (16, 16, 16), (16, 4, 4)]


def test_table_8_layer_by_layer() -> None:
    model = build_model(Mlp(hidden=(32,), activation="elu"), (1, 28, 28), 10, seed=1)
    assert [type(layer).__name__ for layer in model.children()] == ["Flatten", "Linear", "ELU", "Linear"]


@pytest.mark.parametrize(("name", "kind"), [("relu", nn.ReLU), ("elu", nn.ELU), ("tanh", nn.Tanh)])
def test_the_activation_is_used_between_all_layers(name: str, kind: type[nn.Module]) -> None:
    configs: tuple[Model, ...] = (
        Mlp(hidden=(3, 3), activation=name),  # type: ignore[arg-type]
        GroupNormCnn(channels=(4,), kernel=3, activation=name),  # type: ignore[arg-type]
        ResidualCnn(channels=4, blocks=1, activation=name),  # type: ignore[arg-type]
    )
    for config, expected in zip(configs, (2, 2, 4), strict=True):
        layers = list(build_model(config, (1, 9, 9), 3, seed=1).modules())
        assert sum(isinstance(layer, kind) for layer in layers) == expected
        assert sum(isinstance(layer, nn.ReLU | nn.ELU | nn.Tanh) for layer in layers) == expected


@pytest.mark.parametrize("config", [SMALL, SMALL_RESIDUAL, Mlp(hidden=(5,), activation="elu")])
@pytest.mark.parametrize("input_shape", [(3, 9, 11), (9, 11)])
def test_each_sample_has_a_score_and_a_gradient_of_its_own(
    config: Model, input_shape: tuple[int, ...]
) -> None:
    model = build_model(config, input_shape, 3, seed=1)
    check_averageable(model)
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(4, *input_shape, generator=generator)
    y = torch.tensor([0, 2, 1, 2])
    torch.testing.assert_close(model(x), torch.cat([model(one[None]) for one in x]))
    params: dict[str, torch.Tensor] = dict(model.named_parameters())

    def loss(params: dict[str, torch.Tensor], one: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return cross_entropy(functional_call(model, params, (one[None],)), label[None])

    together = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    for index in range(4):
        alone = torch.autograd.grad(
            cross_entropy(model(x[index : index + 1]), y[index : index + 1]), list(params.values())
        )
        for name, slope in zip(params, alone, strict=True):
            torch.testing.assert_close(together[name][index], slope, rtol=1e-4, atol=1e-6)


def test_a_block_adds_its_input_and_takes_the_largest_of_each_four_pixels() -> None:
    """Convolutions of zeros, biases included: what is left of the block is its input."""
    model = build_model(ResidualCnn(channels=2, blocks=1, groups=1), (2, 4, 5), 3, seed=1)
    block = list(model.children())[4]
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.zero_()
    x = torch.randn(1, 2, 4, 5, generator=torch.Generator().manual_seed(2))
    naive = torch.stack([x[:, :, i : i + 3, j : j + 4] for i in (0, 1) for j in (0, 1)]).amax(dim=0)
    torch.testing.assert_close(block(x), naive)


@pytest.mark.parametrize(
    ("config", "input_shape", "path", "reason"),
    [
        (GroupNormCnn(channels=(16, 6)), (28, 28), "model.groups", "4 groups cannot share 6 channels"),
        (ResidualCnn(channels=6), (28, 28), "model.groups", "4 groups cannot share 6 channels"),
        (GroupNormCnn(channels=()), (28, 28), "model.channels", "one number per convolution"),
        (GroupNormCnn(), (1, 8, 8), "model.channels", "leave 0x0 of 8x8 pixels, but the pool needs 4x4"),
        (GroupNormCnn(), (28, 15), "model.channels", "leave 16x3 of 28x15 pixels"),
        (GroupNormCnn(channels=(4,), kernel=8, pool=1), (8, 8), "model.channels", "needs 2x2"),
        (GroupNormCnn(), (784,), "model.type", "needs images of at least 2x2"),
        (ResidualCnn(), (3, 8, 64), "model.type", "a residual-cnn needs images of at least 9x9"),
        (Cnn(), (64,), "model.type", "a cnn needs images of at least 4x4"),
    ],
)
def test_what_does_not_fit_is_refused(
    config: Model, input_shape: tuple[int, ...], path: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        build_model(config, input_shape, 10, seed=1)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("config", "input_shape"),
    [
        (GroupNormCnn(channels=(4,), kernel=7, pool=1), (8, 8)),
        (GroupNormCnn(), (16, 16)),
        (ResidualCnn(), (1, 9, 9)),
    ],
)
def test_the_smallest_images_that_fit_can_be_learnt_from(config: Model, input_shape: tuple[int, ...]) -> None:
    model = build_model(config, input_shape, 3, seed=1)
    x = torch.randn(1, *input_shape, generator=torch.Generator().manual_seed(3))
    slopes = torch.autograd.grad(cross_entropy(model(x), torch.tensor([1])), list(model.parameters()))
    assert all(bool(torch.isfinite(slope).all()) for slope in slopes)
    assert bool(slopes[0].any())
