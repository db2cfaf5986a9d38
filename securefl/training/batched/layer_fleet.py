"""Local training of many parties at once on a GPU."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from securefl import scenario
from securefl.base.arrays import F32, expect
from securefl.base.errors import UsageError
from securefl.training import data, dpsgd, models
from securefl.training.batched.fleet import BatchStep, Job, steps_of

_CPU_CHUNK_BYTES: Final = 64 << 20
"""Memory of a chunk's parameters and activations on a CPU."""

Weights = dict[str, torch.Tensor]


class LayerFleet:
    """SGD with momentum and weight decay of any number of parties, each on its own samples.

    ``torch.func`` computes a chunk of parties at once, which fills a GPU; on a CPU it is slower
    (docs/adr/0010-vectorised-training.md). Batches and results are those of
    :class:`securefl.training.sgd.trainer.LocalTrainer`, up to the rounding of sums. Memory is that of one
    chunk, whose parties may change each other's last bits.

    Args:
        module: a sequence of known layers (:func:`securefl.training.dpsgd.layers_of`); not overwritten.
        pool: all samples, on the computing device.

    Raises:
        UsageError: the module has other layers.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        pool: data.SamplePool,
        input_shape: tuple[int, ...],
        config: scenario.Training,
    ) -> None:
        layers = dpsgd.layers_of(module)
        if layers is None:
            raise UsageError(
                "cannot train several parties at once: a layer of this model has no batched form; train"
                " them one by one"
            )
        self._device = pool.x.device
        self._module = module.to(self._device).train()
        self._pool = pool
        self._shape = input_shape
        self._config = config
        self._length = models.dimension(module)
        # Known layers draw nothing.
        self._slopes = vmap(grad(self._loss), randomness="error")
        sample = torch.ones(1, *input_shape, device=self._device)
        states = 4 if config.momentum else 3  # parameters, gradients and temporaries of a step
        each = 4 * (states * self._length + config.batch_size * layers.floats_each(sample))
        self._chunk = max(1, models.pass_bytes(self._device, _CPU_CHUNK_BYTES) // each)

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
        for first in range(0, len(order), self._chunk):
            chunk = order[first : first + self._chunk]
            yield from zip(chunk, self._chunk_of(start, [jobs[index] for index in chunk]), strict=True)

    def _chunk_of(self, start: torch.Tensor, jobs: Sequence[Job]) -> list[F32 | None]:
        """Return the trained parameters of jobs that are sorted by decreasing number of samples."""
        config = self._config
        with torch.no_grad():
            weights = self._spread(start, len(jobs))
            velocities = {name: torch.zeros_like(weight) for name, weight in weights.items()}
            for step in steps_of(jobs, config.epochs, config.batch_size, self._device):
                self._descend(weights, velocities, step)
            flat = torch.cat([weight.reshape(len(jobs), -1) for weight in weights.values()], dim=1)
        return [row if np.isfinite(row).all() else None for row in flat.cpu().numpy()]

    def _spread(self, start: torch.Tensor, parties: int) -> Weights:
        """Return ``parties`` copies of the parameters in ``start``, (parties, ...) each."""
        weights: Weights = {}
        at = 0
        for name, weight in models.trained_parameters(self._module).items():
            flat = start[at : at + weight.numel()]
            weights[name] = flat.view(1, *weight.shape).repeat(parties, *[1] * weight.dim())
            at += weight.numel()
        return weights

    def _descend(self, weights: Weights, velocities: Weights, step: BatchStep) -> None:
        """Make one step of the first parties, in place."""
        config, (parties, size) = self._config, step.x.shape
        x = self._pool.x.index_select(0, step.x.reshape(-1)).view(parties, size, *self._shape)
        y = self._pool.y[step.y]
        active = {name: weight[:parties] for name, weight in weights.items()}
        slopes = self._slopes(active, x, y, step.weights.squeeze(2))
        for name, weight in active.items():
            slope = slopes[name]
            if config.weight_decay:
                slope = slope.add(weight, alpha=config.weight_decay)
            if config.momentum:
                slope = velocities[name][:parties].mul_(config.momentum).add_(slope)
            weight.sub_(slope, alpha=config.learning_rate)

    def _loss(self, weights: Weights, x: torch.Tensor, y: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        """Return one party's mean loss: samples (k, ...), labels (k,), shares of the mean (k,)."""
        losses = cross_entropy(functional_call(self._module, weights, (x,)), y, reduction="none")
        return losses @ shares
