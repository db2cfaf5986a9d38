"""Trust in the parties: what each has earned by the inner-product rule, round by round.

The server sees sums only. What a cluster earns is credited to each of its survivors, and over reclusterings
and rounds, in ever other company, those who lower the scores of their clusters fall behind (group testing).
It follows from what is opened anyway, but it says something about single parties.
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
    """State of the inner-product rule between rounds; other rules leave it as it is."""

    scores: Mapping[PartyId, float] = field(default_factory=lambda: MappingProxyType({}))
    """The list S of Algorithm 3, by party; 0 for whoever is not in it."""
    gradient: F64 | None = field(default=None, repr=False)
    """The server's gradients of the rounds so far, f64 ``(d,)``, weighted as ``momentum`` says."""


NO_TRUST = Trust()
"""Before the first round."""


Clusters = Sequence[tuple[PartyId, ...]]
"""By cluster the survivors."""


def credited(trust: Trust, clusters: Clusters, earned: F64) -> Trust:
    """Credit what each of ``clusters`` has earned, f64 ``(c,)``, to its survivors.

    Undivided: the score of a cluster's mean is the mean of what its members would have scored alone, and so
    the best guess for each of them. At clusters of 1 this is line 13 of Algorithm 3.
    """
    scores = dict(trust.scores)
    for survivors, score in zip(clusters, earned.tolist(), strict=True):
        for party in survivors:
            scores[party] = scores.get(party, 0.0) + score
    return replace(trust, scores=MappingProxyType(scores))


def faded(trust: Trust, rule: robust.InnerProduct) -> Trust:
    """Earlier trust, faded by one more round of scores: S <- lambda S, lambda = 2^(-1/h).

    With h = ``half_life``, S after t rounds is the sum of lambda^(t-i) s_i over the rounds i = 1 to t.
    Without one, or with an infinite one, it is the plain sum of Algorithm 3. It is called once for every
    round in which somebody is scored, whatever the number of reclusterings; who is absent fades as everybody
    does.

    Of independent scores with mean m and standard deviation s, S goes to mean m / (1 - lambda) and deviation
    s / sqrt(1 - lambda^2): their ratio stops growing, where that of a plain sum of
    :func:`~securefl.methods.robust.tolerance.rounds_remembered` rounds is. ADR 0029 has what that costs and
    buys.
    Source: exponentially weighted sums (Roberts 1959, "Control chart tests based on geometric moving
    averages"); of reputations, the forgetting factor of Josang and Ismail 2002, "The beta reputation system".
    """
    if rule.half_life is None:
        return trust
    left = 2.0 ** (-1.0 / rule.half_life)
    return replace(trust, scores=MappingProxyType({party: left * s for party, s in trust.scores.items()}))


def of_clusters(trust: Trust, rule: robust.InnerProduct, clusters: Clusters) -> F64:
    """Trust in clusters by what their survivors have earned, f64 ``(c,)``: the least, or the mean."""
    pool = min if rule.members == "min" else _mean
    return np.array([pool([trust.scores.get(party, 0.0) for party in survivors]) for survivors in clusters])


def _mean(scores: list[float]) -> float:
    # An exact sum does not depend on the order of the members.
    return math.fsum(scores) / len(scores)


def smoothed(
    trust: Trust, rule: robust.InnerProduct, gradients: Mapping[int, F64]
) -> tuple[Trust, Mapping[int, F64]]:
    """The gradients to compare with in a round whose own ones, all the same, are ``gradients``.

    v <- momentum v + (1 - momentum) gradient, from v = 0; once a round, whatever the number of reclusterings.
    """
    if not rule.momentum or not gradients:
        return trust, gradients
    gradient = next(iter(gradients.values()))
    past = 0.0 if trust.gradient is None else rule.momentum * trust.gradient
    mixed: F64 = past + (1.0 - rule.momentum) * gradient
    return replace(trust, gradient=mixed), dict.fromkeys(gradients, mixed)
