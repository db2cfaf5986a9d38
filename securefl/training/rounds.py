"""Local training round by round, on own or on poisoned samples."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import torch

from securefl import scenario
from securefl.base.arrays import F32, F64, I64, Inputs
from securefl.base.entropy import Entropy
from securefl.training import dpsgd, models, sgd
from securefl.training.data import Shard

DataSeam = Callable[[Inputs, I64, int], tuple[Inputs, I64]]
"""Function from samples, labels and number of classes to other samples and labels."""


class Trainer(Protocol):
    """Local training of one party."""

    def __call__(
        self, round_: int, params: F32, carry: F64 | None, entropy: Entropy, samples: int | None, /
    ) -> F64:
        """Return the update of this round's training from ``params``, f64 ``(d,)``."""
        ...


class ShardTrainer:
    """Epochs of SGD on a party's shard, or one step of DP-SGD if the scenario has ``training.dp_sgd``.

    Args:
        module: each call overwrites it; several trainers may use it in turn.
        data: returns the samples for poisoned rounds, or the same arrays.
        poisons: returns True for such a round.

    Raises:
        ConfigError: DP-SGD draws more records than there are, or the model has no per-example gradients.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        shard: Shard,
        config: scenario.Training,
        device: torch.device,
        data: DataSeam,
        poisons: Callable[[int], bool],
    ) -> None:
        self._poisons = poisons
        self._honest = self._poisoned = _trainer(module, shard, config, device)
        x, y = data(shard.x, shard.y, shard.classes)
        if x is not shard.x or y is not shard.y:
            self._poisoned = _trainer(module, replace(shard, x=x, y=y), config, device)

    def with_module(self, module: torch.nn.Module) -> ShardTrainer:
        """Return the same training on its own module, for another thread; samples are not copied."""
        twin = copy.copy(self)
        twin._honest = self._honest.with_module(module)
        twin._poisoned = self._poisoned.with_module(module)
        return twin

    def update(
        self,
        round_: int,
        params: F32,
        carry: F64 | None,
        entropy: Entropy,
        samples: int | None = None,
    ) -> F64:
        """Return the update of this round's training from ``params``, f64 ``(d,)``.

        See :meth:`LocalTrainer.train` and, with ``carry`` and ``entropy``, :meth:`DpSgdTrainer.update`. Only
        the first ``samples`` are used; None for all.

        Raises:
            TrainingDivergedError: the result, or the model, is not finite.
            UsageError: ``params`` does not fit.
        """
        trainer = self._poisoned if self._poisons(round_) else self._honest
        if isinstance(trainer, dpsgd.DpSgdTrainer):
            return trainer.update(params, carry, entropy, samples)
        return models.change(params, trainer.train(params, entropy, samples))


def _trainer(
    module: torch.nn.Module, shard: Shard, config: scenario.Training, device: torch.device
) -> sgd.LocalTrainer | dpsgd.DpSgdTrainer:
    if config.dp_sgd is None:
        return sgd.LocalTrainer(module, shard, config, device)
    return dpsgd.DpSgdTrainer(module, shard, config, config.dp_sgd, device)
