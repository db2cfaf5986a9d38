"""Samples of many parties in one tensor."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch

from securefl.base.arrays import I64, Inputs


class Portion(NamedTuple):
    """Location of one party's samples in a pool."""

    x: int
    """Row of its first sample."""
    y: int
    """Index of its first label; differs from ``x`` if labels were changed and samples were not."""
    samples: int


class SamplePool(NamedTuple):
    """Samples and labels of all parties, on one device."""

    x: torch.Tensor
    """f32 (N, features), each sample flattened."""
    y: torch.Tensor
    """i64 (M,), M >= N."""


def pool_samples(
    parts: Iterable[tuple[Inputs, I64]], device: torch.device
) -> tuple[SamplePool, tuple[Portion, ...]]:
    """Copy the parts' samples and labels into one pool on ``device``; return it and each part's location.

    ``parts`` are samples f32 ``(n, ...)`` and labels i64 ``(n,)``, n >= 1. An array that several parts share
    is stored once.
    """
    xs: list[Inputs] = []
    ys: list[I64] = []
    portions: list[Portion] = []
    starts: dict[int, int] = {}
    x_end = y_end = 0
    for x, y in parts:
        # The lists keep each array alive, so that its id is not reused.
        if id(x) not in starts:
            starts[id(x)] = x_end
            xs.append(x)
            x_end += len(x)
        if id(y) not in starts:
            starts[id(y)] = y_end
            ys.append(y)
            y_end += len(y)
        portions.append(Portion(starts[id(x)], starts[id(y)], len(y)))
    flat = np.concatenate([x.reshape(len(x), -1) for x in xs])
    pool = SamplePool(torch.from_numpy(flat).to(device), torch.from_numpy(np.concatenate(ys)).to(device))
    return pool, tuple(portions)
