"""Membership inference by shadow models.

The target is the final model, or the global model plus a cluster's mean update.
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
    """By likelihood ratio (LiRA)."""
    shadows: int
    """Shadow models for one target."""


@dataclass(frozen=True, slots=True, eq=False)
class ShadowScores:
    """Confidences of k shadow models in n records, and flags of the records that each was trained on."""

    scores: F64
    """f64 ``(k, n)``."""
    member: npt.NDArray[np.bool_]
    """True for training records, ``(k, n)``."""

    def on(self, target: F64, member: npt.NDArray[np.bool_]) -> MembershipAttack:
        """Attack a model by its confidences.

        Args:
            target: f64 ``(n,)``.
            member: True for its training records, ``(n,)``.

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
    """Train ``count`` shadow models, a simulation each; return their confidences in all records of the pool.

    ``seed`` and ``secret`` are those of :meth:`securefl.runtime.simulation.shadows.Pool.shadows`.

    Raises:
        ConfigError: the scenario cannot be simulated on the pool.
        UsageError: the records are text.
    """
    confidence = confidences_in(pool)
    scores, members = [], []
    for shadow in pool.shadows(count, seed, secret):
        scores.append(confidence(shadow.params))
        members.append(shadow.member)
        progress(len(scores))
    return ShadowScores(np.stack(scores), np.stack(members))


def confidences_in(pool: simulation.Pool) -> Callable[[F32], F64]:
    """Return a function from parameters to confidences in a pool's records, f64 ``(n,)``.

    Raises:
        UsageError: the records are text.
    """
    data = pool.dataset
    shard = Shard(data.standardise(data.x_train), data.y_train, data.classes, data.input_shape)
    module = models.model_of(pool.scenario, data.input_shape, data.classes, 0, tokens=shard.tokens)
    return sgd.Confidences(module, shard).of
