"""Trust in the parties: scores earned by the inner-product rule, round by round.

Each survivor is credited with its cluster's score. Over changing clusters, parties that lower scores fall
behind (group testing). Trust discloses facts about single parties.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.methods import robust


@dataclass(frozen=True, slots=True)
class Trust:
    """Scores of parties and smoothed server gradient that the inner-product rule keeps between rounds."""

    scores: Mapping[PartyId, float] = field(default_factory=lambda: MappingProxyType({}))
    """List S of Algorithm 3, by party; 0 if missing."""
    gradient: F64 | None = field(default=None, repr=False)
    """Server gradients, f64 ``(d,)``, weighted by ``momentum``."""


NO_TRUST = Trust()


Clusters = Sequence[tuple[PartyId, ...]]
"""Survivors by cluster."""


def credit_scores(trust: Trust, clusters: Clusters, earned: F64) -> Trust:
    """Credit each cluster's score in ``earned``, f64 ``(c,)``, to its survivors.

    Undivided: a mean's score is the mean of its members' scores, so the best guess for each. For clusters of
    1 this is line 13 of Algorithm 3.
    """
    scores = dict(trust.scores)
    for survivors, score in zip(clusters, earned.tolist(), strict=True):
        for party in survivors:
            scores[party] = scores.get(party, 0.0) + score
    return replace(trust, scores=MappingProxyType(scores))


def fade_scores(trust: Trust, rule: robust.InnerProduct) -> Trust:
    """Return earlier trust, faded by one more round of scores: S <- lambda S, lambda = 2^(-1/h).

    With h = ``half_life``, S after t rounds is the sum of lambda^(t-i) s_i over i = 1 to t. Without h, or
    with h infinite, it is the plain sum of Algorithm 3. Call it once per round with scores; absent parties
    fade too.

    For independent scores with mean m and standard deviation s, S tends to mean m / (1 - lambda) and
    deviation s / sqrt(1 - lambda^2). Their ratio stops growing at that of a plain sum over
    :func:`~securefl.methods.robust.tolerance.rounds_remembered` rounds (ADR 0029).

    Source: Roberts 1959, "Control chart tests based on geometric moving averages"; for reputations, Josang
    and Ismail 2002, "The beta reputation system".
    """
    if rule.half_life is None:
        return trust
    left = 2.0 ** (-1.0 / rule.half_life)
    return replace(trust, scores=MappingProxyType({party: left * s for party, s in trust.scores.items()}))


def cluster_trust(trust: Trust, rule: robust.InnerProduct, clusters: Clusters) -> F64:
    """Return trust in clusters, f64 ``(c,)``: least or mean score of their survivors."""
    pool = min if rule.members == "min" else _mean
    return np.array([pool([trust.scores.get(party, 0.0) for party in survivors]) for survivors in clusters])


def _mean(scores: list[float]) -> float:
    # An exact sum does not depend on the order of the members.
    return math.fsum(scores) / len(scores)


def smooth_gradients(
    trust: Trust, rule: robust.InnerProduct, gradients: Mapping[int, F64]
) -> tuple[Trust, Mapping[int, F64]]:
    """Return the gradients to compare with, given this round's ``gradients``, all equal.

    v <- momentum v + (1 - momentum) gradient, from v = 0; once per round.
    """
    if not rule.momentum or not gradients:
        return trust, gradients
    gradient = next(iter(gradients.values()))
    past = 0.0 if trust.gradient is None else rule.momentum * trust.gradient
    mixed: F64 = past + (1.0 - rule.momentum) * gradient
    return replace(trust, gradient=mixed), dict.fromkeys(gradients, mixed)
