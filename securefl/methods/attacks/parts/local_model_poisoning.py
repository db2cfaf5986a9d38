"""Local model poisoning (Fang, Cao, Jia and Gong 2020, arXiv 1911.11815).

The paper crafts local *models*, which are updates from another origin.
"""

import math
from typing import Literal

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.crypto import prg
from securefl.base.entropy import Entropy
from securefl.base.stack import ClusterMeans
from securefl.methods.attacks.parts.min_max import squared_between
from securefl.methods.robust import krum, krum_scores

STRETCH = 2.0
"""The paper's b: factor beyond the known extremes."""
SMALLEST = 1e-5
"""Smallest lambda, at which the search ends without success (section 3.2 of the paper)."""
_REFINEMENTS = 20
_MARGIN = 1e-4
"""Relative margin of the crafted row's score, since the rule rounds the rows."""


class LocalModelPoisoning(scenario.InformedAttack, tag="local-model-poisoning", frozen=True, kw_only=True):
    """Update as far against the direction of training as one rule accepts.

    Against s = sign(mean(x)): beyond the extremes of x, or the largest -lambda s that Krum selects.

    Example:
        >>> LocalModelPoisoning()([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]], seed=1).round(6)
        array([-0.926107,  0.309907])
    """

    against: Literal["trimmed-mean", "krum"] = "trimmed-mean"
    """Attacked rule; ``trimmed-mean`` also covers the median."""

    @property
    def rows_needed(self) -> int:
        return 3 if self.against == "krum" else 2

    @property
    def alike(self) -> bool:
        return self.against == "krum"

    def collude(self, known: F64, actors: int, entropy: Entropy) -> F64:
        if self.against == "trimmed-mean":
            omniscient = self.knowledge == "omniscient"
            beyond = against_trimmed_mean if omniscient else against_trimmed_mean_by_estimate
            return beyond(known, entropy)
        if self.knowledge == "omniscient":
            return against_krum(known, actors)
        return against_krum_by_estimate(known, actors)


def against_trimmed_mean(known: F64, entropy: Entropy) -> F64:
    """Return an update beyond the known extremes, against training: for trimmed mean and median.

    With s the sign of the mean of the known updates, each coordinate is uniform. For s < 0 it is between the
    known maximum and :data:`STRETCH` times it (a negative maximum is divided instead); for s > 0 likewise
    below the minimum. For s = 0 it is the mean. Every attacker draws separately.

    Knows: all honest updates (section 3.3, full knowledge).
    """
    mean, low, high = known.mean(axis=0), known.min(axis=0), known.max(axis=0)
    above = np.where(high > 0, high * STRETCH, high / STRETCH)
    below = np.where(low > 0, low / STRETCH, low * STRETCH)
    return _draw_beyond(mean, (below, low), (high, above), entropy)


def against_trimmed_mean_by_estimate(known: F64, entropy: Entropy) -> F64:
    """Return an update as :func:`against_trimmed_mean` does, from mean -+ 3 to 4 standard deviations.

    Mean and deviation are those of the known rows as a population, and replace the unknown extremes.

    Knows: the trained updates of its own coalition (section 3.3, partial knowledge).
    """
    mean, std = known.mean(axis=0), known.std(axis=0)
    return _draw_beyond(mean, (mean - 4 * std, mean - 3 * std), (mean + 3 * std, mean + 4 * std), entropy)


def against_krum(known: F64, attackers: int) -> F64:
    """Return -lambda * s with the largest lambda found for which Krum chooses it; every attacker sends it.

    s are the signs of the update that Krum chooses among the known ones: the direction of training. ``known``
    has at least 3 rows. The search halves a lambda that is too large until Krum chooses the crafted row among
    ``attackers`` copies and the known updates. Then it bisects up to the double. If Krum chooses none, the
    result has :data:`SMALLEST`. Krum is assumed to tolerate ``attackers`` q >= 1. For k <= q + 1 any lambda
    wins; then the first one is used.

    Knows: all honest updates and the rule (section 3.2, full knowledge).
    """
    return _lambda(known, attackers)[0] * -_signs(known, attackers)


def against_krum_by_estimate(known: F64, attackers: int) -> F64:
    """Return an update as :func:`against_krum` does, from the coalition's own trained updates.

    Copies of all attackers would win against so few rows with any lambda. So copies are added while none is
    chosen, from one to ``attackers`` >= 1, as in the source. ``known`` has at least 3 rows.

    Knows: the trained updates of its own coalition, and the rule (section 3.2, partial knowledge).
    """
    most = min(attackers, len(known) - 2)
    copies = 1
    size, chosen = _lambda(known, copies)
    while not chosen and copies < most:
        copies += 1
        size, chosen = _lambda(known, copies)
    return size * -_signs(known, copies)


def _draw_beyond(mean: F64, below: tuple[F64, F64], above: tuple[F64, F64], entropy: Entropy) -> F64:
    """Return uniform values in [above) for a negative mean, in [below) for a positive mean."""
    words = prg.expand(entropy.draw(prg.KEY_BYTES), mean.size, np.uint64) >> np.uint64(11)
    share = words.astype(np.float64) * 2.0**-53
    up = above[0] + share * (above[1] - above[0])
    down = below[1] + share * (below[0] - below[1])
    return np.where(mean < 0, up, np.where(mean > 0, down, mean))


def _signs(known: F64, byzantine: int) -> F64:
    """Return the signs of Krum's choice without an attack."""
    rows = len(known)
    stack = ClusterMeans(known, np.ones(rows), np.ones(rows, dtype=np.int64))
    return np.sign(krum(stack, min(byzantine, rows - 3)).vector)


def _lambda(known: F64, copies: int) -> tuple[float, bool]:
    """Return the step size, and True if Krum chooses it among ``copies`` copies and the known rows."""
    election = _Election(known, _signs(known, copies), copies)
    low = election.too_large()
    if election.won_by(low):
        return low, True
    while not election.won_by(low):
        low /= 2
        if low < SMALLEST:
            return SMALLEST, False
    high = 2 * low
    for _ in range(_REFINEMENTS):
        middle = (low + high) / 2
        low, high = (middle, high) if election.won_by(middle) else (low, middle)
    return low, True


class _Election:
    """Krum among ``copies`` of -lambda s and the known rows, with one Gram matrix for all lambda."""

    def __init__(self, known: F64, signs: F64, copies: int) -> None:
        self._copies = copies
        self._neighbours = len(known) - 2
        self._among = squared_between(known)
        self._norms: F64 = np.einsum("ij,ij->i", known, known)
        self._along: F64 = known @ signs
        self._moved = max(1.0, float(signs @ signs))

    def too_large(self) -> float:
        """Return a lambda above which crafted rows lose, if honest rows are among their neighbours.

        The crafted row's score counts ``outside`` honest rows, each at least lambda ||s|| - max ||x|| away.
        It must stay below the score of an honest row among the honest rows.
        """
        outside = max(1, self._neighbours - (self._copies - 1))
        best = float(krum_scores(self._among, min(self._neighbours, len(self._norms) - 1)).min())
        return (math.sqrt(best / outside) + math.sqrt(float(self._norms.max()))) / math.sqrt(self._moved)

    def won_by(self, size: float) -> bool:
        """Return True if a crafted row has a lower score than every known one."""
        copies, known = self._copies, len(self._norms)
        squared = np.zeros((copies + known, copies + known))
        squared[copies:, copies:] = self._among
        away = np.maximum(self._norms + 2 * size * self._along + size**2 * self._moved, 0.0)
        squared[:copies, copies:] = away
        squared[copies:, :copies] = away[:, np.newaxis]
        scores = krum_scores(squared, self._neighbours)
        return bool(scores[0] < (1 - _MARGIN) * scores[copies:].min())
