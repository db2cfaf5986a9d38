"""Local training of many parties at once, for dense models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import torch

from securefl import scenario
from securefl.base.arrays import F32, I64, expect
from securefl.training import data, models
from securefl.training.sgd import ahead


class Job(NamedTuple):
    """One party's training in one round."""

    portion: data.Portion
    seed: int
    """Seed of the order of samples, as in :class:`securefl.training.sgd.trainer.LocalTrainer`."""


class BatchStep(NamedTuple):
    """One batch of each of the first ``a`` parties of the chunk, which still have one.

    Smaller batches are padded to k samples of weight 0.
    """

    x: torch.Tensor
    """Rows of the pool, i64 (a, k)."""
    y: torch.Tensor
    """Indices of the pool's labels, i64 (a, k)."""
    weights: torch.Tensor
    """1 / size of the batch, or 0, f32 (a, k, 1)."""


def batches_of(samples: int, batch_size: int) -> int:
    """Return the number of batches of an epoch."""
    return math.ceil(samples / batch_size)


def steps_of(jobs: Sequence[Job], epochs: int, batch_size: int, device: torch.device) -> Iterator[BatchStep]:
    """Yield the steps of all epochs, with the batches of :class:`securefl.training.sgd.trainer.LocalTrainer`.

    ``jobs`` are sorted by decreasing number of samples. Each epoch has a fresh order. Sizes of one party's
    batches are at most ``batch_size`` and differ by at most one.
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
    """Return positions and weights of the samples, (batches, k), cut like ``torch.tensor_split``."""
    size, larger = divmod(samples, batches)
    sizes = np.full(batches, size)
    sizes[:larger] += 1
    starts = np.cumsum(sizes) - sizes
    place = np.arange(sizes[0])
    positions: I64 = starts[:, None] + np.minimum(place, sizes[:, None] - 1)
    weights = np.where(place < sizes[:, None], 1 / sizes[:, None], 0.0).astype(np.float32)
    return positions, weights


_CPU_CHUNK_BYTES: Final = (2 << 20, 8 << 20)
"""Bounds on a chunk's parameters and activations on a CPU, which fit the caches."""

_CHUNKS: Final = 8
"""Largest number of chunks. Fixed, since the number of cores must not change bits."""


class _Layer(NamedTuple):
    """Dense layer of each party of a chunk."""

    weight: torch.Tensor
    """f32 (a, inputs, outputs): the transpose makes the product with the samples 3 times as fast."""
    bias: torch.Tensor
    """f32 (a, 1, outputs)."""

    def first(self, parties: int) -> _Layer:
        """Return the layers of the first ``parties`` parties, on the same memory."""
        return _Layer(self.weight[:parties], self.bias[:parties])


class DenseFleet:
    """SGD with momentum and weight decay of any number of parties, each on its own samples.

    A step of a chunk of parties is a few batched matrix products. The gradient is written out, because
    ``vmap(grad(...))`` takes 2 to 5 times as long (docs/adr/0010-vectorised-training.md). Results are those
    of :class:`securefl.training.sgd.trainer.LocalTrainer`, up to the rounding of sums. Memory is that of a
    few chunks. The numbers of threads and of chunks in flight change no bit; the members of a chunk may
    change the last bits.

    Args:
        widths: of the layers, see :meth:`securefl.scenario.Model.vectorised_widths`.
        pool: all samples, on the computing device.
        threads: chunks trained at the same time, each with torch's number of threads.
    """

    def __init__(
        self, widths: tuple[int, ...], pool: data.SamplePool, config: scenario.Training, *, threads: int = 1
    ) -> None:
        self._widths = widths
        self._pool = pool
        self._config = config
        self._device = pool.x.device
        self._threads = threads if self._device.type == "cpu" else 1
        self._length = sum((a + 1) * b for a, b in pairwise(widths))
        states = 2 if config.momentum else 1
        each = 4 * (states * self._length + 3 * config.batch_size * sum(widths))
        self._chunk = tuple(
            max(1, models.pass_bytes(self._device, size) // each) for size in _CPU_CHUNK_BYTES
        )

    def train(self, params: F32, jobs: Sequence[Job]) -> Iterator[tuple[int, F32 | None]]:
        """Train from ``params``, f32 ``(d,)``; yield each job's index and its parameters, f32 ``(d,)``.

        Parameters that are not finite yield None. Jobs with more samples come first.

        Raises:
            UsageError: ``params`` does not fit.
        """
        expect(params, "params", np.float32, (self._length,))
        start = torch.from_numpy(params.copy()).to(self._device)
        # Jobs of one chunk have similar numbers of batches, so few are idle.
        order = sorted(range(len(jobs)), key=lambda index: (-jobs[index].portion.samples, index))
        least, most = self._chunk
        size = min(max(least, math.ceil(len(jobs) / _CHUNKS)), most)
        chunks = [order[i : i + size] for i in range(0, len(order), size)]

        def train(chunk: list[int]) -> list[F32 | None]:
            return self._chunk_of(start, [jobs[index] for index in chunk])

        for chunk, results in ahead(train, chunks, min(self._threads, max(1, len(chunks)))):
            yield from zip(chunk, results, strict=True)

    def _chunk_of(self, start: torch.Tensor, jobs: Sequence[Job]) -> list[F32 | None]:
        """Return the trained parameters of jobs that are sorted by decreasing number of samples."""
        config = self._config
        with torch.inference_mode():
            layers = self._spread(start, len(jobs))
            moving: list[_Layer] = []
            if config.momentum:
                moving = [_Layer(torch.zeros_like(w), torch.zeros_like(b)) for w, b in layers]
            for step in steps_of(jobs, config.epochs, config.batch_size, self._device):
                parties = len(step.x)
                self._descend(
                    [layer.first(parties) for layer in layers],
                    [layer.first(parties) for layer in moving],
                    step,
                )
            flat = torch.cat(
                [part for w, b in layers for part in (w.mT.reshape(len(jobs), -1), b.squeeze(1))], dim=1
            )
        return [row if np.isfinite(row).all() else None for row in flat.cpu().numpy()]

    def _spread(self, start: torch.Tensor, parties: int) -> list[_Layer]:
        """Return ``parties`` copies of the layers in ``start``, laid out like torch's parameters."""
        layers: list[_Layer] = []
        at = 0
        for inputs, outputs in pairwise(self._widths):
            weight = start[at : at + inputs * outputs].view(outputs, inputs).T
            at += inputs * outputs
            bias = start[at : at + outputs].view(1, outputs)
            at += outputs
            layers.append(_Layer(weight.repeat(parties, 1, 1), bias.repeat(parties, 1, 1)))
        return layers

    def _descend(self, layers: list[_Layer], moving: list[_Layer], step: BatchStep) -> None:
        """Make one step of all parties, in place; ``moving`` has velocities, if any."""
        parties, size = step.x.shape
        x = self._pool.x.index_select(0, step.x.reshape(-1)).view(parties, size, -1)
        seen = [x]
        for weight, bias in layers[:-1]:
            seen.append(torch.baddbmm(bias, seen[-1], weight).relu_())
        scores = torch.baddbmm(layers[-1].bias, seen[-1], layers[-1].weight)
        # Slope of the mean cross-entropy: probabilities, minus 1 at the label, over the batch's size.
        slope = torch.softmax(scores, dim=2)
        label = self._pool.y[step.y].unsqueeze(2)
        slope.scatter_add_(2, label, torch.full((1, 1, 1), -1.0, device=slope.device).expand_as(label))
        slope *= step.weights
        for index in range(len(layers) - 1, -1, -1):
            before = slope
            if index:
                slope = torch.bmm(slope, layers[index].weight.mT)
                slope = torch.ops.aten.threshold_backward(slope, seen[index], 0)
            self._update(layers[index], moving[index] if moving else None, seen[index], before)

    def _update(
        self, layer: _Layer, moving: _Layer | None, inputs: torch.Tensor, slope: torch.Tensor
    ) -> None:
        """Step against the gradient of one layer, inputs^T slope, or along ``moving``."""
        config, (weight, bias) = self._config, layer
        if moving is None:
            kept = 1 - config.learning_rate * config.weight_decay
            weight.baddbmm_(inputs.mT, slope, beta=kept, alpha=-config.learning_rate)
            bias.mul_(kept).sub_(slope.sum(dim=1, keepdim=True), alpha=config.learning_rate)
            return
        moving.weight.baddbmm_(inputs.mT, slope, beta=config.momentum)
        moving.bias.mul_(config.momentum).add_(slope.sum(dim=1, keepdim=True))
        for what, velocity in zip(layer, moving, strict=True):
            if config.weight_decay:
                velocity.add_(what, alpha=config.weight_decay)
            what.sub_(velocity, alpha=config.learning_rate)
