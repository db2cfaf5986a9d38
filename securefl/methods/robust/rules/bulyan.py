"""Bulyan."""

import numpy as np

from securefl import scenario
from securefl.base.errors import UsageError
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust import distances
from securefl.methods.robust.rules.krum import krum_scores
from securefl.methods.robust.rules.mean_around_median import mean_of_nearest


class Bulyan(scenario.Rule, tag="bulyan", frozen=True, kw_only=True):
    """Coordinate-wise mean around the median of c - 2 ``byzantine`` rows selected by repeated Krum.

    That is the mean of the c - 4 ``byzantine`` values nearest to the median.

    Example:
        >>> rows = [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [2.0, 2.0], [1.0, 3.0], [2.0, 4.0], [100.0, -50.0]]
        >>> Bulyan(byzantine=1)(rows)
        array([2.        , 2.88888889])
    """

    byzantine: scenario.NonNegative
    """f, clusters with Byzantine members. Needs 4 f + 3 clusters, withstands f."""

    @property
    def clusters_needed(self) -> int:
        return 4 * self.byzantine + 3

    def withstands(self, clusters: int) -> int:
        return self.byzantine

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return bulyan(stack, self.byzantine)


def bulyan(stack: ClusterMeans, byzantine: int) -> AggregationResult:
    """Select theta = c - 2 ``byzantine`` rows by Krum, then average, in each coordinate, near their median.

    Selection: theta times the row that Krum prefers among the remaining n rows, with max(1, n - byzantine -
    2) neighbours (the last picks are not in the source). Ties as in
    :func:`securefl.methods.robust.rules.krum.krum`. Averaging:
    :func:`securefl.methods.robust.rules.mean_around_median.mean_around_median` of theta - 2 ``byzantine``
    selected values. Weights do not affect either choice. ``kept``: selected clusters of which at least half
    of the coordinates are averaged.

    Breakdown point: ``byzantine`` rows, given c >= 4 * byzantine + 3, which are fewer than half of the
    selected. Then each coordinate is within the width of the honest range from that range. Krum only bounds
    the distance, which may hide a large error in one coordinate. Beyond ``byzantine``, large rows must first
    be forced into the selection.
    Cost: one Gram matrix and one sort of theta values a coordinate, O(c^2 d) time, O(c^3 log c) for the
    selection; O(c d + c^2) memory.
    Source: El Mhamdi, Guerraoui, Rouault 2018, "The hidden vulnerability of distributed learning in
    Byzantium" (arXiv 1802.07927), section 4.

    Raises:
        UsageError: ``byzantine`` is negative, or c < 4 * byzantine + 3.
    """
    clusters = stack.clusters
    if byzantine < 0 or clusters < 4 * byzantine + 3:
        raise UsageError(
            f"Bulyan(byzantine={byzantine}) cannot aggregate {clusters} clusters: byzantine >= 0 and"
            " at least 4 byzantine + 3 clusters are needed"
        )
    selected = np.arange(clusters)
    if byzantine:
        selected = np.sort(_select(stack, clusters - 2 * byzantine, byzantine))
    rows = stack.means[selected] if byzantine else stack.means
    vector, counts = mean_of_nearest(rows, stack.weights[selected], len(selected) - 2 * byzantine)
    kept = np.zeros(clusters, dtype=np.bool_)
    kept[selected] = 2 * counts >= stack.dimension
    return AggregationResult(vector, kept)


def _select(stack: ClusterMeans, places: int, byzantine: int) -> list[int]:
    squared = distances.squared_distances(stack.means)
    remaining = np.arange(stack.clusters)
    selected: list[int] = []
    while len(selected) < places:
        scores = krum_scores(squared[np.ix_(remaining, remaining)], max(1, len(remaining) - byzantine - 2))
        best = remaining[scores == scores.min()].tolist()
        selected.append(distances.in_row_order(stack, best)[0])
        remaining = remaining[remaining != selected[-1]]
    return selected
