"""Rounds of one party: built-in models with SGD and DP-SGD, and a ResNet-18 in a ``TorchSite``.

Samples are drawn at random, in the shape of Fashion-MNIST, CIFAR-10 or a text: time does not depend on
their values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from securefl.base.entropy import InsecureSeededEntropy
from securefl.scenario import DpSgd, Model, Training
from securefl.training.data import Shard
from securefl.training.dpsgd import DpSgdTrainer
from securefl.training.models import Mlp, build_model, to_vector
from securefl.training.models.parts.cnn import Cnn
from securefl.training.models.parts.lstm import Lstm
from securefl.training.sgd import LocalTrainer
from securefl.training.sites import RoundContext, TorchSite
from tools.cuda.workloads.resnet import resnet18

FASHION: Final = (28, 28)
CIFAR: Final = (3, 32, 32)
CLASSES: Final = 10


class Work(NamedTuple):
    """One round of a party on a device."""

    step: Callable[[], object]
    examples: int
    """Examples that a round takes, repetitions included."""


class Kind(NamedTuple):
    """A kind of training."""

    text: str
    build: Callable[[torch.device], Work]


def mlp(device: torch.device) -> Work:
    """One epoch of the MLP of the scenario ``fashion``."""
    return _sgd(Mlp(hidden=(64,)), _images(FASHION), Training(batch_size=32, learning_rate=0.1), device)


def cnn(device: torch.device) -> Work:
    """One epoch of the CNN, of default widths."""
    return _sgd(Cnn(), _images(CIFAR), Training(batch_size=32, learning_rate=0.01), device)


def lstm(device: torch.device) -> Work:
    """One epoch of the LSTM, of default widths."""
    return _sgd(Lstm(), _text(samples=100, length=80), Training(batch_size=10, learning_rate=0.1), device)


def plain_step_mlp(device: torch.device) -> Work:
    """One step of SGD, to compare :func:`dp_step_mlp` with."""
    return _sgd(Mlp(hidden=(64,)), _images(FASHION), _one_step(250), device)


def dp_step_mlp(device: torch.device) -> Work:
    """One step of DP-SGD."""
    return _dp(Mlp(hidden=(64,)), _images(FASHION), _one_step(250), device)


def plain_step_cnn(device: torch.device) -> Work:
    """One step of SGD, to compare :func:`dp_step_cnn` with."""
    return _sgd(Cnn(), _images(CIFAR), _one_step(125), device)


def dp_step_cnn(device: torch.device) -> Work:
    """One step of DP-SGD on convolutions."""
    return _dp(Cnn(), _images(CIFAR), _one_step(125), device)


def resnet_site(device: torch.device) -> Work:
    """One epoch of a site of a user's own, which copies each batch to the device."""
    examples = 128
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(examples, *CIFAR, generator=draw)
    y = torch.randint(CLASSES, (examples,), generator=draw)
    site = TorchSite(
        resnet18(CLASSES),
        DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        loss=cross_entropy,
        optimiser=lambda weights: torch.optim.SGD(weights, lr=0.01, momentum=0.9),
        device=device,
    )
    start = site.parameters()
    context = RoundContext(number=0, planned=1, seed=1)
    return Work(lambda: site.fit({name: array.copy() for name, array in start.items()}, context), examples)


KINDS: Final = {
    "mlp": Kind("MLP, 64 hidden units: 1,000 images of 28 x 28, batches of 32", mlp),
    "cnn": Kind("CNN: 1,000 images of 3 x 32 x 32, batches of 32", cnn),
    "lstm": Kind("LSTM: 100 texts of 80 characters, batches of 10", lstm),
    "plain-step-mlp": Kind("MLP, one plain step on 250 images", plain_step_mlp),
    "dp-step-mlp": Kind("MLP, one DP-SGD step on 250 images", dp_step_mlp),
    "plain-step-cnn": Kind("CNN, one plain step on 125 images", plain_step_cnn),
    "dp-step-cnn": Kind("CNN, one DP-SGD step on 125 images", dp_step_cnn),
    "resnet18": Kind("ResNet-18 in a TorchSite: 128 images of 3 x 32 x 32, batches of 32", resnet_site),
}


def _one_step(examples: int) -> Training:
    return Training(batch_size=examples, learning_rate=0.1, steps=1)


def _sgd(model: Model, shard: Shard, config: Training, device: torch.device) -> Work:
    module = build_model(model, shard.input_shape, shard.classes, seed=0, tokens=shard.tokens)
    start = to_vector(module)
    trainer = LocalTrainer(module, shard, config, device)
    examples = config.batch_size if config.steps == 1 else len(shard.y) * config.epochs
    return Work(lambda: trainer.train(start, InsecureSeededEntropy(1)), examples)


def _dp(model: Model, shard: Shard, config: Training, device: torch.device) -> Work:
    module = build_model(model, shard.input_shape, shard.classes, seed=0)
    start = to_vector(module)
    # Of fixed size, so that each step has as many examples as the plain one.
    trainer = DpSgdTrainer(module, shard, config, DpSgd(sampler="fixed-size"), device)
    return Work(lambda: trainer.update(start, None, InsecureSeededEntropy(1)), config.batch_size)


def _images(shape: tuple[int, ...], samples: int = 1000) -> Shard:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, *shape), dtype=np.float32)
    return Shard(x, rng.integers(0, CLASSES, samples), CLASSES, shape)


def _text(samples: int, length: int) -> Shard:
    rng = np.random.default_rng(0)
    classes = 74
    x, y = (rng.integers(0, classes, (samples, length)) for _ in range(2))
    return Shard(x, y, classes, (length,))
