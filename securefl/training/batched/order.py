"""The order of samples in each step of a chunk of parties: the exact trainer's batches, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from securefl.base.arrays import F32, I64
from securefl.training import data


class Job(NamedTuple):
    """One party's training in one round."""

    portion: data.Portion
    seed: int
    """Of the order of samples: as :class:`securefl.training.sgd.trainer.LocalTrainer` draws it."""


class BatchStep(NamedTuple):
    """One batch of each party that still has one: the first ``a`` parties of the chunk.

    Batches of different sizes are filled up to k samples with one of their own samples, of weight 0.
    """

    x: torch.Tensor
    """Rows of the pool, i64 (a, k)."""
    y: torch.Tensor
    """Indices of the pool's labels, i64 (a, k)."""
    weights: torch.Tensor
    """1 / size of the batch, or 0, f32 (a, k, 1)."""


def batches_of(samples: int, batch_size: int) -> int:
    """The number of batches of an epoch."""
    return math.ceil(samples / batch_size)


def steps_of(jobs: Sequence[Job], epochs: int, batch_size: int, device: torch.device) -> Iterator[BatchStep]:
    """Yield the steps of all epochs.

    Args:
        jobs: sorted by falling numbers of samples.
        epochs: over each party's samples, each in a fresh order.
        batch_size: the largest; sizes of one party's batches differ by at most one.
        device: where the steps' tensors are wanted.
    """
    orders = [torch.Generator().manual_seed(job.seed) for job in jobs]
    counts = [batches_of(job.portion.samples, batch_size) for job in jobs]
    cut = [_cut(job.portion.samples, count) for job, count in zip(jobs, counts, strict=True)]
    width = max(positions.shape[1] for positions, _ in cut)
    weights = np.zeros((counts[0], len(jobs), width, 1), dtype=np.float32)
    for party, (count, (positions, shares)) in enumerate(zip(counts, cut, strict=True)):
        weights[:count, party, : positions.shape[1], 0] = shares
    shares_there = torch.from_numpy(weights).to(device)
    active = [sum(count > step for count in counts) for step in range(counts[0])]
    x0, y0 = (np.array([job.portion[i] for job in jobs])[:, None] for i in (0, 1))
    for _ in range(epochs):
        picks = np.zeros((counts[0], len(jobs), width), dtype=np.int64)
        for party, (job, order, (positions, _)) in enumerate(zip(jobs, orders, cut, strict=True)):
            permutation = torch.randperm(job.portion.samples, generator=order).numpy()
            picked = permutation[positions]
            here = picks[: len(picked), party]
            here[:, : picked.shape[1]] = picked
            here[:, picked.shape[1] :] = picked[:, :1]
        x, y = (torch.from_numpy(picks + first).to(device) for first in (x0, y0))
        for step, still in enumerate(active):
            yield BatchStep(x[step, :still], y[step, :still], shares_there[step, :still])


@lru_cache(maxsize=4096)
def _cut(samples: int, batches: int) -> tuple[I64, F32]:
    """As ``torch.tensor_split``: positions in the permutation and weights of the samples, (batches, k)."""
    size, larger = divmod(samples, batches)
    sizes = np.full(batches, size)
    sizes[:larger] += 1
    starts = np.cumsum(sizes) - sizes
    place = np.arange(sizes[0])
    positions: I64 = starts[:, None] + np.minimum(place, sizes[:, None] - 1)
    weights = np.where(place < sizes[:, None], 1 / sizes[:, None], 0.0).astype(np.float32)
    return positions, weights
