"""Devices that the contract suites of training run on, and how far their results may differ.

``SECUREFL_DEVICE`` selects one, such as ``cuda``; the suites fail, not skip, if it is missing. By default
they run on the CPU, and on a GPU if there is one. ``test_fake_device.py`` runs them on the fake device.

The reference is never a committed number: other versions of torch and other kernels round differently. It is
a computation in double precision on the CPU by other code, ``torch.optim`` and one gradient at a time.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from securefl.base.arrays import F32, F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.training.data.shards import Shard
from securefl.training.models.device import pick_device
from tests import fake_device as fake

SHAPE, CLASSES = (1, 8, 8), 4

SMOOTH = 1e-4
"""Relative to the length of an update, for models without kinks: some 1,000 roundings of single precision."""
KINKED = 0.1
"""The same for models with ReLU or max-pooling: a value that rounds to the other side of a kink changes every
later step. Seen on CPUs: 0.02."""
BOUND = 1e-9
"""How much longer than its bound a gradient may be: bounds are computed in double precision."""


WANTED = os.environ.get("SECUREFL_DEVICE")
if WANTED == fake.NAME:
    fake.install()  # before the first backward pass: torch's engine counts the kinds of devices once


def names() -> tuple[str, ...]:
    """Return the devices to test."""
    return (WANTED,) if WANTED else ("cpu", *(["cuda"] if torch.cuda.is_available() else []))


@pytest.fixture(params=names())
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Each device in turn, as a training process picks it."""
    if request.param == fake.NAME:
        # torch lets no wrapped tensor be a view in inference mode.
        monkeypatch.setattr(torch, "inference_mode", torch.no_grad)
    # Backward passes of the fake device in this thread: in the engine's, functorch has no access to Python.
    with torch.autograd.set_multithreading_enabled(request.param != fake.NAME):
        yield pick_device(request.param, 1)


def smooth_model(seed: int = 3, *, normed: bool = True) -> nn.Module:
    """Return a convolutional model of known layers without kinks; with group normalisation if ``normed``."""
    torch.manual_seed(seed)
    norm = nn.GroupNorm(2, 6) if normed else nn.Identity()
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        norm,
        nn.Conv2d(6, 8, 3),
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(32, CLASSES),
    )


MAPPED_NORM = WANTED != fake.NAME
"""False on the fake device, where torch has no ``vmap`` of a group normalisation."""


def shard_of(samples: int, seed: int = 0) -> Shard:
    """Return noisy samples whose label follows from their brightest quarter."""
    rng = np.random.default_rng(seed)
    y = np.arange(samples, dtype=np.int64) % CLASSES
    x = rng.standard_normal((samples, *SHAPE)).astype(np.float32)
    for quarter in range(CLASSES):
        top, left = 4 * (quarter // 2), 4 * (quarter % 2)
        x[y == quarter, :, top : top + 4, left : left + 4] += 0.5
    return Shard(x, y, CLASSES, SHAPE)


def seed_of(party: int) -> int:
    """Return the seed of the order of samples that a trainer draws from the party's entropy."""
    return int.from_bytes(InsecureSeededEntropy(party).draw(8), "big")


def distance(found: npt.NDArray[np.floating], expected: F64, start: F32 | None = None) -> float:
    """Return |found - expected| over |expected - start|."""
    scale = np.linalg.norm(expected if start is None else expected - start)
    return float(np.linalg.norm(found.astype(np.float64) - expected) / scale)


def in_double(module: nn.Module, params: F32) -> nn.Module:
    """Return a copy of ``module`` on the CPU in double precision, with the parameters ``params``."""
    twin = copy.deepcopy(module).to("cpu", torch.float64).train()
    torch.nn.utils.vector_to_parameters(torch.from_numpy(params.astype(np.float64)), twin.parameters())
    return twin


def flat(module: nn.Module) -> F64:
    """Return the parameters as one vector."""
    vector: F64 = torch.nn.utils.parameters_to_vector(module.parameters()).detach().double().numpy()
    return vector
