"""Mean around the median."""

from typing import ClassVar

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64, I64
from securefl.base.errors import UsageError
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust import distances
from securefl.methods.robust.products import fold


class MeanAroundMedian(scenario.Rule, tag="mean-around-median", frozen=True, kw_only=True):
    """Coordinate-wise mean of the c - ``byzantine`` values nearest to the median.

    Example:
        >>> MeanAroundMedian(byzantine=1)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]])
        array([2., 3.])
    """

    by_coordinate: ClassVar[bool] = True

    byzantine: scenario.NonNegative
    """f, clusters with Byzantine members. Needs 2 f + 1 clusters, withstands f."""

    @property
    def clusters_needed(self) -> int:
        return 2 * self.byzantine + 1

    def withstands(self, clusters: int) -> int:
        return self.byzantine

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return mean_around_median(stack, self.byzantine)


def mean_around_median(stack: ClusterMeans, byzantine: int) -> AggregationResult:
    """Return, by coordinate, the weighted mean of the c - ``byzantine`` values nearest to the median.

    The median and the nearest values are counted without weights. Values equally far at the cut share the
    remaining places evenly. ``kept``: clusters of which at least half of the coordinates are among the
    nearest.

    Breakdown point: ``byzantine`` clusters. The median then lies in the range of the other clusters, and the
    averaged values within the width of that range from it. With one more cluster, one of its values is
    averaged at any distance.
    Cost: one sort of c values a coordinate; O(d) memory.
    Source: Xie, Koyejo, Gupta 2018, "Generalized Byzantine-tolerant SGD" (arXiv 1802.10116), definition 7.

    Raises:
        UsageError: ``byzantine`` is negative, or not 2 * byzantine < c.
    """
    clusters = stack.clusters
    if byzantine < 0 or clusters <= 2 * byzantine:
        raise UsageError(
            f"byzantine must be at least 0 and below half of the {clusters} clusters, found {byzantine}"
        )
    vector, counts = mean_of_nearest(stack.means, stack.weights, clusters - byzantine)
    return AggregationResult(vector, 2 * counts >= stack.dimension)


def mean_of_nearest(rows: F64, weights: F64, keep: int) -> tuple[F64, I64]:
    """Return, by column, the weighted mean of the ``keep`` values nearest to the median of all.

    Returns:
        The means, f64 ``(d,)``, and by row the number of columns in which it is among the nearest, i64
        ``(c,)``.
    """
    vector = np.empty(rows.shape[1])
    counts = np.zeros(len(rows), dtype=np.int64)
    for block in distances.column_blocks(rows):
        ranked, distance = block.ranked, block.scratch
        median = (ranked[(len(rows) - 1) // 2] + ranked[len(rows) // 2]) / 2.0
        radius = _radius(block, median, keep)
        np.subtract(block.rows, median, out=distance)
        np.abs(distance, out=distance)
        near = distance <= radius
        # Counting along an axis would first convert every flag to an integer.
        counts += [np.count_nonzero(row) for row in near]
        (tied,) = np.nonzero(np.add.reduce(near, axis=0, dtype=np.int32) > keep)
        shared = _shares(distance[:, tied], radius[tied], keep) if tied.size else None
        share = distance
        np.copyto(share, near)
        if shared is not None:
            share[:, tied] = shared
        share *= weights[:, np.newaxis]
        mean = fold(np.multiply(block.rows, share, out=block.rows))
        mean /= fold(share)
        np.clip(mean, median - radius, median + radius, out=vector[block.at])
    vector += 0.0  # clipping may take either of two zeros of different sign
    return vector, counts


def _radius(block: distances.Block, median: F64, keep: int) -> F64:
    """Return the distance of the ``keep``-th nearest value: the nearest ones are adjacent in the ranking.

    Overwrites ``block.ranked`` and ``block.scratch``.
    """
    left_out = len(block.ranked) - keep
    below = np.subtract(median, block.ranked[: left_out + 1], out=block.scratch[: left_out + 1])
    above = np.subtract(block.ranked[keep - 1 :], median, out=block.ranked[keep - 1 :])
    farther = np.maximum(below, above, out=below)
    radius: F64 = farther.min(axis=0)
    return radius


def _shares(distance: F64, radius: F64, keep: int) -> F64:
    """Return 1 for values nearer than the radius, and equal parts of the remaining places at it."""
    inside, at_cut = distance < radius, distance == radius
    share = inside.astype(np.float64)
    share += at_cut * ((keep - inside.sum(axis=0)) / at_cut.sum(axis=0))
    return share
