"""Weighted median."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.stack import AggregationResult, ClusterMeans, all_kept
from securefl.methods.robust import distances

WEIGHT_UNITS = 1 << 32
"""Resolution of weights, as integers in units of the largest weight / 2^32.

Sums are then exact in float64 for up to 2^20 clusters. A difference of 2 units a cluster is rounding, and
does not decide which weight is half.
"""

Ranks = npt.NDArray[np.intp]


class Median(scenario.Rule, tag="median", frozen=True, kw_only=True):
    """Coordinate-wise weighted median: the midpoint of the lower and the upper one.

    Example:
        >>> Median()([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]])
        array([2.5, 2.5])
    """

    by_coordinate: ClassVar[bool] = True

    def withstands(self, clusters: int) -> int:
        return (clusters - 1) // 2

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return weighted_median(stack)


def weighted_median(stack: ClusterMeans) -> AggregationResult:
    """Return, by coordinate, the midpoint of the lower and the upper weighted median.

    With W(A) the weight of the clusters whose value is in A and T the total weight,

        lower = min {x_i : W((-inf, x_i]) >= T / 2},    upper = max {x_i : W([x_i, inf)) >= T / 2}.

    They differ only if a set of smallest values weighs T / 2, up to 2^-31 c of the largest weight. With equal
    weights this is the ordinary median. ``kept``: all clusters, since each may supply some coordinate.

    Breakdown point: clusters that weigh less than T / 2, floor((c - 1) / 2) equal ones, cannot move a
    coordinate out of the range of the others.
    Cost: one sort of c values a coordinate, and an index sort of the few coordinates with nearly equal values
    at the middle. O(d) memory.
    Source: Yin et al. 2018 (arXiv 1803.01498), definition 1, with weights.
    """
    units = np.maximum(np.rint(stack.weights * (WEIGHT_UNITS / stack.weights.max())), 1.0)
    equal = bool((units == units[0]).all())
    middle = _Middle(units)
    vector = np.empty(stack.dimension)
    for block in distances.column_blocks(stack.means, tagged=not equal):
        if equal:
            lower, upper = block.ranked[(stack.clusters - 1) // 2], block.ranked[stack.clusters // 2]
        else:
            lower, upper = middle.find(block)
        np.add(lower, upper, out=vector[block.at])
    vector /= 2.0
    vector += 0.0  # half of the smallest negative number is a zero with a sign
    return AggregationResult(vector, all_kept(stack))


class _Middle:
    """Search for weighted medians among c values, for given integer weights (``units``)."""

    def __init__(self, units: F64) -> None:
        self.units = units
        self.mask = distances.tag_mask(len(units))
        half, slack = float(units.sum()) / 2.0, 2.0 * len(units)
        self.enough, self.too_much = half - slack, half + slack
        # The rank is lowest if the heaviest clusters come first, and highest if they come last.
        ascending = np.sort(units)
        self.lowest = int(np.searchsorted(np.cumsum(ascending[::-1]), self.enough))
        self.highest = int(np.searchsorted(np.cumsum(ascending), self.enough))

    def find(self, block: distances.Block) -> tuple[F64, F64]:
        """Return the lower and upper weighted median of each column."""
        width = block.rows.shape[1]
        columns = np.arange(width)
        # Overwriting the tagged values is cheaper than fresh memory.
        whose = block.ranked[: min(self.highest + 2, len(block.ranked))].view(np.int64)
        whose &= self.mask
        rank, weight = self._rank(whose, block.scratch[: self.highest + 1], columns)

        def value(rank: Ranks) -> F64:
            found: F64 = block.rows.take(whose.take(rank * width + columns) * width + columns)
            return found

        lower = value(rank)
        upper = lower.copy()
        doubtful = weight <= self.too_much
        for other in (np.maximum(rank - 1, 0), np.minimum(rank + 1, len(whose) - 1)):
            doubtful |= (other != rank) & (self._remove_tags(value(other)) == self._remove_tags(lower))
        (at,) = np.nonzero(doubtful)
        if at.size:
            # The slice block.rows[:, at] would be in column order.
            lower[at], upper[at] = self._check_guess(block.rows.take(at, axis=1), lower[at])
        return lower, upper

    def _remove_tags(self, values: F64) -> F64:
        """Return ``values`` without tags."""
        return (values.view(np.int64) & ~self.mask).view(np.float64)

    def _rank(self, whose: Ranks, upto: F64, columns: Ranks) -> tuple[Ranks, F64]:
        """Return the first rank up to which values weigh enough, and their weight."""
        low, high = self.lowest, self.highest
        self.units.take(whose[: high + 1], out=upto, mode="clip")  # the default would copy ``out``
        np.add.reduce(upto[: low + 1], axis=0, out=upto[low])
        for rank in range(low + 1, high + 1):
            upto[rank] += upto[rank - 1]
        # Values up to rank ``last`` weigh enough, values below rank ``first`` do not.
        first, last = np.full(len(columns), low), np.full(len(columns), high)
        for _ in range((high - low).bit_length()):
            middle = (first + last) >> 1
            enough = upto.take(middle * len(columns) + columns) >= self.enough
            np.copyto(last, middle, where=enough)
            np.copyto(first, middle + 1, where=~enough)
        return last, upto.take(last * len(columns) + columns)

    def _check_guess(self, rows: F64, lower: F64) -> tuple[F64, F64]:
        """Return the lower and upper weighted median, given a guess at the lower one."""
        weight = self.units @ (rows <= lower)
        wrong = (weight < self.enough) | (self.units @ (rows < lower) >= self.enough)
        if wrong.any():
            order = np.argsort(rows[:, wrong], axis=0)
            rank = np.count_nonzero(np.cumsum(self.units[order], axis=0) < self.enough, axis=0)
            chosen = np.take_along_axis(order, rank[np.newaxis], axis=0)
            lower[wrong] = np.take_along_axis(rows[:, wrong], chosen, axis=0)[0]
            weight[wrong] = self.units @ (rows[:, wrong] <= lower[wrong])
        upper = lower.copy()
        (tied,) = np.nonzero(weight <= self.too_much)
        if tied.size:
            higher = rows[:, tied]
            higher[higher <= lower[tied]] = np.inf
            upper[tied] = higher.min(axis=0)
        return lower, upper
