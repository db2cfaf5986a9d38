"""Local training at one party (docs/dataflow.md, step 1): plain SGD."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from securefl import scenario
from securefl.base.arrays import F32
from securefl.base.entropy import Entropy
from securefl.methods import clustering
from securefl.training import data, local_methods, models
from securefl.training.sgd.outcomes import TrainingDivergedError


class LocalTrainer:
    """SGD with momentum and weight decay on one party's shard, which it copies to ``device`` once.

    ``config.method`` corrects gradients. Control variates are kept from call to call. Each call overwrites
    ``module``'s parameters; several trainers may use one module in turn, but not at the same time.
    """

    def __init__(
        self, module: torch.nn.Module, shard: data.Shard, config: scenario.Training, device: torch.device
    ) -> None:
        self._module = module.to(device)
        self._x = torch.from_numpy(shard.x).to(device)
        self._y = torch.from_numpy(shard.y).to(device)
        self._config = config
        self._device = device
        self._kept = local_methods.KeptControls()

    def with_module(self, module: torch.nn.Module) -> LocalTrainer:
        """Return the same training on its own module, for another thread; samples are not copied."""
        twin = copy.copy(self)
        twin._module = module.to(self._device)
        return twin

    def train(self, params: F32, entropy: Entropy, samples: int | None = None) -> F32:
        """Return the parameters f32 ``(d,)`` after ``config.epochs`` passes over the shard from ``params``.

        Each epoch visits every sample once, in a fresh order. Batches have at most ``config.batch_size``
        samples, or ``config.batch_fraction`` of them, and their sizes differ by at most one. With
        ``config.steps`` there are at most that many batches in total. Momentum starts at zero. ``samples``
        limits the shard to its first ones. On the CPU equal arguments give equal bits (same torch, same
        number of threads).

        Raises:
            TrainingDivergedError: the result is not finite.
            UsageError: ``params`` does not fit.
        """
        models.load_vector(self._module, params)
        # The order need not be secret, so torch's generator may draw it; the party's entropy gives each round
        # its own.
        seed = int.from_bytes(entropy.draw(8), "big")
        with models.seed_torch(seed, self._device):
            self._descend(torch.Generator().manual_seed(seed), samples)
        result = models.to_vector(self._module)
        if not np.isfinite(result).all():
            raise TrainingDivergedError(
                "the parameters are no longer finite numbers; "
                f"lower training.learning_rate ({self._config.learning_rate})"
            )
        return result

    def _descend(self, order: torch.Generator, samples: int | None) -> None:
        """Apply the rule of ``torch.optim.SGD``, bit for bit, with a third less overhead on small models."""
        config, x, y = self._config, self._x[:samples], self._y[:samples]
        self._module.train()
        weights, controls = models.without_controls(self._module), models.controls_of(self._module)
        method = config.method
        correction = None if method.plain else local_methods.Correction(method, weights, controls, self._kept)
        velocities = [torch.zeros_like(weight) for weight in weights]
        for batch in islice(self._batches(len(y), order), config.steps):
            loss = cross_entropy(self._module(x[batch]), y[batch])
            slopes: Sequence[torch.Tensor | None] = torch.autograd.grad(loss, weights, allow_unused=True)
            with torch.no_grad():
                if correction is not None:
                    slopes = correction.correct(slopes)
                for weight, velocity, slope in zip(weights, velocities, slopes, strict=True):
                    if slope is not None:
                        weight.add_(self._direction(weight, velocity, slope), alpha=-config.learning_rate)
        if correction is not None:
            with torch.no_grad():
                for control, change in zip(controls, correction.end(), strict=True):
                    control.copy_(change)

    def _batches(self, samples: int, order: torch.Generator) -> Iterator[torch.Tensor]:
        """Yield the batches of all epochs, as indices into the shard."""
        # Sizes are almost equal, as the step of a last batch of one or two samples would be mostly noise.
        batches = math.ceil(samples / clustering.batch_size_of(self._config, samples))
        for _ in range(self._config.epochs):
            permutation = torch.randperm(samples, generator=order).to(self._device)
            yield from torch.tensor_split(permutation, batches)

    def _direction(self, weight: torch.Tensor, velocity: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        if self._config.weight_decay:
            slope = slope.add(weight, alpha=self._config.weight_decay)
        if self._config.momentum:
            return velocity.mul_(self._config.momentum).add_(slope)
        return slope
