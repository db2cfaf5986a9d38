"""Local training round by round: on a party's own data, or in some rounds on what an attack makes of it."""

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
"""Samples, labels and the number of classes, to other samples and labels; see ``Shard`` for both forms."""


class Trainer(Protocol):
    """Trains on one set of samples."""

    def update(self, params: F32, carry: F64 | None, entropy: Entropy, samples: int | None = None) -> F64:
        """The update of a training from ``params``, f64 ``(d,)``."""
        ...

    def with_module(self, module: torch.nn.Module) -> Trainer:
        """The same training on a module of its own, for another thread; no samples are copied."""
        ...


class Epochs:
    """Epochs of SGD, which end in parameters, as an update."""

    def __init__(self, trainer: sgd.LocalTrainer) -> None:
        self._trainer = trainer

    def update(self, params: F32, carry: F64 | None, entropy: Entropy, samples: int | None = None) -> F64:
        """See :class:`Trainer`; nothing is carried."""
        del carry
        return models.change(params, self._trainer.train(params, entropy, samples))

    def with_module(self, module: torch.nn.Module) -> Epochs:
        """See :class:`Trainer`."""
        return Epochs(self._trainer.with_module(module))


def trainer_for(
    module: torch.nn.Module, shard: Shard, config: scenario.Training, device: torch.device
) -> Trainer:
    """Epochs of SGD, or one step of DP-SGD where ``training.dp_sgd`` is there.

    Raises:
        ConfigError: DP-SGD draws more than there is, or the model has no per-example gradients.
    """
    if config.dp_sgd is None:
        return Epochs(sgd.LocalTrainer(module, shard, config, device))
    return dpsgd.DpSgdTrainer(module, shard, config, config.dp_sgd, device)


class RoundTrainer:
    """One party's training.

    Args:
        module: overwritten in each call; several trainers may take turns with one.
        shard: the party's own data.
        config: as configured.
        device: where ``module`` computes.
        data: what the party trains on in rounds in which it poisons; the same arrays for one that never does.
        poisons: whether it does in a round.
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
        self._honest = self._poisoned = trainer_for(module, shard, config, device)
        x, y = data(shard.x, shard.y, shard.classes)
        if x is not shard.x or y is not shard.y:
            self._poisoned = trainer_for(module, replace(shard, x=x, y=y), config, device)

    def with_module(self, module: torch.nn.Module) -> RoundTrainer:
        """The same training on a module of its own, for another thread; no samples are copied."""
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
        """The update of this round's training from ``params``, f64 ``(d,)``.

        See :meth:`LocalTrainer.train` and :meth:`DpSgdTrainer.update`.

        Args:
            round_: the round's number.
            params: its model, f32 ``(d,)``.
            carry: what per-example momentum goes on from; for DP-SGD only.
            entropy: of this update.
            samples: how many of the party's samples are used at most, the first ones; None for all of them.

        Raises:
            TrainingDivergedError: the result, or the model, is not finite.
            UsageError: ``params`` has the wrong dtype or length.
        """
        trainer = self._poisoned if self._poisons(round_) else self._honest
        return trainer.update(params, carry, entropy, samples)
