"""Multi-Krum."""

import numpy as np

from securefl import scenario
from securefl.base.errors import UsageError
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust import distances, products
from securefl.methods.robust.rules.krum import krum_scores


class MultiKrum(scenario.Rule, tag="multi-krum", frozen=True, kw_only=True):
    """Weighted mean of the ``keep`` cluster means with the smallest Krum scores.

    Example:
        >>> MultiKrum(byzantine=1)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]])
        array([2., 3.])
    """

    byzantine: scenario.NonNegative
    """f, clusters with Byzantine members. Needs f + max(3, ``keep``) clusters; withstands f of 2 f + 3 or
    more."""
    keep: scenario.Positive | None = None
    """Number of rows, at most c - f. None: c - f."""

    @property
    def clusters_needed(self) -> int:
        return self.byzantine + max(3, self.keep or 0)

    def withstands(self, clusters: int) -> int:
        return self.byzantine if clusters >= 2 * self.byzantine + 3 else 0

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return multi_krum(stack, self.byzantine, self.keep)


def multi_krum(stack: ClusterMeans, byzantine: int, keep: int | None = None) -> AggregationResult:
    """Return the weighted mean of the ``keep`` rows with the smallest Krum scores.

    A row's score is the sum of squared distances to its c - ``byzantine`` - 2 nearest other rows; ``keep``
    defaults to c - ``byzantine``. Weights do not affect the choice. Ties are broken as in
    :func:`securefl.methods.robust.rules.krum.krum`, which is ``keep`` = 1. ``kept``: the chosen clusters.

    Breakdown point: ``byzantine`` rows if c >= 2 * byzantine + 3. A chosen Byzantine row has then displaced
    an honest one with a larger score. So each chosen row lies within sqrt(c - byzantine - 2) honest diameters
    of an honest one. Unboundedly large rows win if they win against Krum, and from c - keep + 1 on.
    Cost: O(c^2 d) time; O(c^2 + d) memory.
    Source: Blanchard et al. 2017, section 5 ("Multi-Krum").

    Raises:
        UsageError: ``byzantine`` is negative, c < byzantine + 3, or ``keep`` is outside 1 to c - byzantine.
    """
    clusters = stack.clusters
    places = clusters - byzantine if keep is None else keep
    if byzantine < 0 or clusters < byzantine + 3 or not 1 <= places <= clusters - byzantine:
        raise UsageError(
            f"Multi-Krum(byzantine={byzantine}, keep={keep}) cannot aggregate {clusters} clusters:"
            " clusters >= byzantine + 3 and 1 <= keep <= clusters - byzantine must hold"
        )
    scores = krum_scores(distances.squared_distances(stack.means), clusters - byzantine - 2)
    last = np.sort(scores)[places - 1]
    kept = scores < last
    tied = distances.in_row_order(stack, np.flatnonzero(scores == last).tolist())
    kept[tied[: places - int(kept.sum())]] = True
    weights = np.where(kept, stack.weights, 0.0)
    return AggregationResult(products.combine(weights / products.total(weights), stack.means), kept)
