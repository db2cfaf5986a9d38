"""Models for the tests of DP-SGD, and their per-example gradients the slow way."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn.functional import batch_norm, cross_entropy, linear

from securefl.base.arrays import F64, I64, Inputs
from securefl.training.models.catalogue import build_model
from securefl.training.models.generators import seed_torch
from securefl.training.models.parts.cnn import Cnn
from securefl.training.models.parts.group_norm_cnn import GroupNormCnn
from securefl.training.models.parts.lstm import Lstm
from securefl.training.models.parts.mlp import Mlp
from securefl.training.models.parts.residual_cnn import ResidualCnn
from securefl.training.models.parts.softmax import Softmax

SHAPE, CLASSES = (1, 8, 8), 3


class Skip(nn.Module):
    """A residual layer whose weight is used twice, once through the layer and once without it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.inner(x)) + linear(x, self.inner.weight)


class Branching(nn.Module):
    """Looks at its values to decide what to do, which cannot be mapped."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = nn.Linear(64, CLASSES), nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        scores: torch.Tensor = self.large(flat) if bool((flat[:, 0] > 0).all()) else self.small(flat)
        return scores


class Picky(nn.Module):
    """Raises on a sample with a large value."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x > 100).any()):
            raise ValueError("a value beyond what it takes")
        scores: torch.Tensor = self.last(x.flatten(1))
        return scores


class Centring(nn.Module):
    """Subtracts the batch's mean."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        scores: torch.Tensor = self.scores(flat - flat.mean(dim=0))
        return scores


class Whitening(nn.Module):
    """Batch norm without a layer of that name."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        scores: torch.Tensor = self.scores(batch_norm(flat, None, None, training=True))
        return scores


def dense(*hidden: int) -> nn.Module:
    return build_model(Mlp(hidden=hidden) if hidden else Softmax(), SHAPE, CLASSES, seed=3)


def elu() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 5, bias=False), nn.ELU(), nn.Linear(5, CLASSES))


def grouped() -> nn.Module:
    """With strides, paddings and dilations, some of which leave pixels over."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.ELU(),
        nn.GroupNorm(2, 4),
        nn.Sequential(nn.Conv2d(4, 6, (2, 1), dilation=(2, 1), bias=False), nn.ELU(), nn.GroupNorm(3, 6)),
        nn.Conv2d(6, 6, (1, 2), stride=(1, 3), padding=(0, 1), bias=False),
        nn.AdaptiveAvgPool2d((2, 2)),
        nn.Flatten(),
        nn.GroupNorm(4, 24),
        nn.Linear(24, CLASSES),
    )


def pooled() -> nn.Module:
    return build_model(Cnn(channels=(2, 3), dense=5), SHAPE, CLASSES, seed=3)


def paper_cnn() -> nn.Module:
    """Xiang et al. 2023, Table 7, but smaller."""
    config = GroupNormCnn(channels=(4, 6), kernel=3, groups=2, pool=2, dense=5)
    return build_model(config, SHAPE, CLASSES, seed=3)


def paper_residual() -> nn.Module:
    """Their network for Colorectal, but smaller."""
    config = ResidualCnn(channels=4, blocks=2, groups=2, dense=5)
    return build_model(config, SHAPE, CLASSES, seed=3)


def skipping() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), Skip(6), nn.Linear(6, CLASSES))


def tied() -> nn.Module:
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    second.weight = first.weight
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), first, nn.Tanh(), second, nn.Linear(6, CLASSES))


def twice() -> nn.Module:
    layer = nn.Linear(6, 6)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), layer, nn.Tanh(), layer, nn.Linear(6, CLASSES))


def in_place() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(inplace=True), nn.Linear(6, CLASSES))


def frozen() -> nn.Module:
    module = dense(5)
    next(module.parameters()).requires_grad = False
    return module


def hooked() -> nn.Module:
    module = dense(5)
    module[1].register_forward_hook(lambda _module, _inputs, output: 2 * output)  # type: ignore[index]
    return module


def depthwise() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3, groups=2), nn.Flatten(), nn.Linear(64, CLASSES)
    )


def same_padding() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"), nn.Flatten(), nn.Linear(128, CLASSES))


def dropout() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Dropout(0.5), nn.Linear(6, CLASSES))


def made(make: Callable[[], nn.Module], seed: int = 3) -> nn.Module:
    with seed_torch(seed):
        return make()


def images(samples: int, seed: int = 0) -> tuple[Inputs, I64]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((samples, *SHAPE)).astype(np.float32)
    return x, rng.integers(0, CLASSES, samples)


def text_model() -> nn.Module:
    return build_model(Lstm(embedding=3, hidden=4, layers=2), (7,), 5, seed=3, tokens=True)


def text(samples: int, seed: int = 0) -> tuple[Inputs, I64]:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 5, (2, samples, 7))
    return x, y


def slow_gradients(module: nn.Module, x: Inputs, y: I64) -> F64:
    """One backward pass for each example, in double precision: f64 (n, d)."""
    twin = copy.deepcopy(module).double().train()
    rows = []
    for values, labels in zip(torch.from_numpy(x), torch.from_numpy(y), strict=True):
        one = values.double() if values.is_floating_point() else values
        weights = [weight for weight in twin.parameters() if weight.requires_grad]
        loss = cross_entropy(twin(one[None]), labels[None])
        slopes = torch.autograd.grad(loss, weights, materialize_grads=True)
        rows.append(torch.cat([part.reshape(-1) for part in slopes]))
    gradients: F64 = torch.stack(rows).numpy()
    return gradients
