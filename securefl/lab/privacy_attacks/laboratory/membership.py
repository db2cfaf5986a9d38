"""Membership inference on models and on opened sums, with shadow models for the likelihood ratio.

A model is a model whether it is the final one or the global one plus a cluster's mean update: the same attack
asks of both which records they were trained on. Members and others come from one distribution.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from securefl.base import entropy
from securefl.base.arrays import F32, F64
from securefl.lab.privacy_attacks import roc
from securefl.lab.privacy_attacks.membership import likelihood_ratios
from securefl.runtime import simulation
from securefl.training import models, sgd
from securefl.training.data import Shard


@dataclass(frozen=True, slots=True, eq=False)
class MembershipAttack:
    """Two attacks on the same models."""

    threshold: roc.Roc
    """By confidence alone."""
    ratio: roc.Roc
    """By LiRA."""
    shadows: int
    """Models that the likelihood ratio of one target rests on."""


@dataclass(frozen=True, slots=True, eq=False)
class ShadowScores:
    """Confidences of shadow models, and what they were trained on."""

    scores: F64
    """f64 ``(k, n)``."""
    member: npt.NDArray[np.bool_]
    """``(k, n)``."""

    def on(self, target: F64, member: npt.NDArray[np.bool_]) -> MembershipAttack:
        """Attack one model that is none of them.

        Args:
            target: its confidences, f64 ``(n,)``.
            member: what it was trained on, ``(n,)``.

        Raises:
            UsageError: too few shadow models, or records of one kind only.
        """
        ratios = likelihood_ratios(target, self.scores, self.member)
        return MembershipAttack(roc.roc_of(target, member), roc.roc_of(ratios, member), len(self.scores))


def shadow_scores(
    pool: simulation.Pool,
    count: int,
    seed: int,
    secret: entropy.Entropy | None = None,
    progress: Callable[[int], None] = lambda _done: None,
) -> ShadowScores:
    """Train shadow models and ask each how sure it is of every record of the pool.

    Args:
        pool: what they are trained on.
        count: how many; the cost is that of so many simulations.
        seed: as in :meth:`securefl.runtime.simulation.shadows.Pool.shadows`.
        secret: as there.
        progress: told how many are done.

    Raises:
        ConfigError: the scenario cannot be simulated on the pool.
        UsageError: text.
    """
    confidence = confidences_in(pool)
    scores, members = [], []
    for shadow in pool.shadows(count, seed, secret):
        scores.append(confidence(shadow.params))
        members.append(shadow.member)
        progress(len(scores))
    return ShadowScores(np.stack(scores), np.stack(members))


def confidences_in(pool: simulation.Pool) -> Callable[[F32], F64]:
    """A function from parameters to confidences in all records of a pool, f64 ``(n,)``.

    Raises:
        UsageError: text.
    """
    data = pool.dataset
    shard = Shard(data.standardise(data.x_train), data.y_train, data.classes, data.input_shape)
    module = models.model_of(pool.scenario, data.input_shape, data.classes, 0, tokens=shard.tokens)
    return sgd.Confidences(module, shard).of
