"""Factories that the tests of custom models name, good and bad."""

from __future__ import annotations

import math

import torch
from torch import nn


def good(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), classes))


def with_group_norm(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.GroupNorm(1, math.prod(input_shape)), nn.LazyLinear(classes))


def with_dropout(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(math.prod(input_shape), classes))


def that_dislikes_bright_pictures(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(math.prod(input_shape), classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training and bool((x.flatten(1).sum(dim=1) > 15).any()):
                raise IndexError("too bright")
            scores: torch.Tensor = self.layer(x.flatten(1))
            return scores

    return Picky()


def with_frozen_bias(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    linear = nn.Linear(math.prod(input_shape), classes)
    linear.bias.requires_grad = False
    return nn.Sequential(nn.Flatten(), linear)


def with_frozen_backbone(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), 96), nn.ReLU())
    return nn.Sequential(backbone.requires_grad_(requires_grad=False), nn.Linear(96, classes))


def with_another_backbone(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    module = with_frozen_backbone(input_shape, classes)
    with torch.no_grad():
        module[0][1].bias[0] += 1e-3  # type: ignore[index]
    return module


def with_unused_layer(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = nn.Linear(math.prod(input_shape), classes)
            self.unused = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.used(x.flatten(1))
            return scores

    return Unused()


def with_tied_weights(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    size = math.prod(input_shape)
    first, second = nn.Linear(size, size), nn.Linear(size, size)
    second.weight = first.weight
    return nn.Sequential(nn.Flatten(), first, second, nn.Linear(size, classes))


def with_batch_norm(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    size = math.prod(input_shape)
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(size), nn.Linear(size, classes))


def in_double_precision(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    class Double(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(math.prod(input_shape), classes, dtype=torch.float64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.layer(x.flatten(1).double())
            return scores

    return Double()


def for_text(_input_shape: tuple[int, ...], classes: int) -> nn.Module:
    class PerCharacter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scores = nn.Embedding(classes, classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.scores(x)
            return scores.transpose(1, 2)

    return PerCharacter()


def for_text_transposed(_input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Embedding(classes, classes)


def without_parameters(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(classes))


def all_frozen(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return good(input_shape, classes).requires_grad_(requires_grad=False)


def with_wrong_classes(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return good(input_shape, classes + 1)


def with_wrong_input(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(math.prod(input_shape) + 1, classes)


def returns_text(input_shape: tuple[int, ...], classes: int) -> str:
    return f"{input_shape} {classes}"


def raises(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    raise KeyError(f"no model for {input_shape} and {classes}")


def takes_nothing() -> nn.Module:
    return nn.Identity()


not_callable = 3
