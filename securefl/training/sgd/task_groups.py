"""Task groups with torch models."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from securefl.base.arrays import F32
from securefl.methods import task_groups
from securefl.protocol.round import likeliest_group
from securefl.scenario import Groups, Scenario
from securefl.training import data, models
from securefl.training.sgd import evaluation
from securefl.training.sgd.outcomes import Evaluation

_SEEDS_APART = 1_000_003
"""Difference between the seeds of two groups."""


def initial_models(scenario: Scenario, module: torch.nn.Module, shard: data.Shard, seed: int) -> F32:
    """Return the parameters before the first round, f32 ``(k d,)``: ``module``'s, then k - 1 further draws.

    Parties would choose the first of equal models.
    """
    others = (
        models.model_of(
            scenario, shard.input_shape, shard.classes, seed + _SEEDS_APART * group, tokens=shard.tokens
        )
        for group in range(1, scenario.groups.count)
    )
    return np.concatenate([models.to_vector(module), *map(models.to_vector, others)])


class Chooser:
    """Choice of the model with the least loss on one party's data; each call overwrites ``module``.

    ``shard`` is unpoisoned: a poisoning party chooses like its honest mates.
    """

    def __init__(self, module: torch.nn.Module, shard: data.Shard, device: torch.device) -> None:
        self._evaluator = evaluation.Evaluator(module, shard, device)
        self._length = models.dimension(module)

    def choose(self, params: F32) -> int | None:
        """Return the model's number among f32 ``(k d,)``, or None if no loss is finite."""
        losses = [self._evaluator.evaluate(model).loss for model in _models(params, self._length)]
        return likeliest_group(np.array(losses))


class GroupEvaluator:
    """Tests of k models on the test set, or on its rotations if these are the tasks.

    Arguments as for :class:`securefl.training.sgd.evaluation.Evaluator`; ``groups`` has the number of models
    and the tasks.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        shard: data.Shard,
        device: torch.device,
        groups: Groups,
        trigger: evaluation.Trigger | None = None,
    ) -> None:
        turns = range(groups.count if groups.tasks == "rotations" else 1)
        self._tasks = [
            evaluation.Evaluator(module, turn_images(shard, turn), device, trigger) for turn in turns
        ]
        self._length = models.dimension(module)

    def evaluate(self, params: F32) -> Evaluation:
        """Return the mean accuracy and loss over tasks, each matched to one of the models f32 ``(k d,)``.

        Without separate tasks the most accurate model on the test set counts.
        """
        table = [[task.evaluate(model) for task in self._tasks] for model in _models(params, self._length)]
        if len(self._tasks) == 1:
            return max((row[0] for row in table), key=lambda one: one.accuracy)
        matched = task_groups.matching(np.array([[-one.accuracy for one in row] for row in table]))
        pairs = [row[task] for row, task in zip(table, matched, strict=True)]
        backdoor = [one.backdoor_success for one in pairs if one.backdoor_success is not None]
        return Evaluation(
            math.fsum(one.accuracy for one in pairs) / len(pairs),
            math.fsum(one.loss for one in pairs) / len(pairs),
            math.fsum(backdoor) / len(backdoor) if backdoor else None,
        )


def evaluator_of(
    groups: Groups,
    module: torch.nn.Module,
    shard: data.Shard,
    device: torch.device,
    trigger: evaluation.Trigger | None,
) -> evaluation.Evaluator | GroupEvaluator:
    """Return the evaluator of a scenario's model or models."""
    if groups.count == 1:
        return evaluation.Evaluator(module, shard, device, trigger)
    return GroupEvaluator(module, shard, device, groups, trigger)


def turn_images(shard: data.Shard, quarters: int) -> data.Shard:
    """Return the shard with its images turned.

    Raises:
        ConfigError: its samples are not square images.
    """
    return replace(shard, x=data.turned_samples(shard.x, quarters)) if quarters else shard


def _models(params: F32, length: int) -> Iterator[F32]:
    for start in range(0, len(params), length):
        yield params[start : start + length]
