"""The coordinate-wise weighted median."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from securefl.arrays import F64
from securefl.robust.blocks import Block, column_blocks
from securefl.robust.stack import Aggregate, Stack, everyone

WEIGHT_UNITS = 1 << 32
"""Weights are compared as integers, in units of the largest weight / 2^32: sums are then exact in float64 for
up to 2^20 clusters, whatever their order. What rounding to units may have changed, 2 units a cluster at most,
does not decide what half of the weight is."""

Ranks = npt.NDArray[np.intp]


def weighted_median(stack: Stack) -> Aggregate:
    """In each coordinate the midpoint of the lower and the upper weighted median.

    With W(A) the weight of the clusters whose value lies in A and T the total weight,

        lower = min {x_i : W((-inf, x_i]) >= T / 2},    upper = max {x_i : W([x_i, inf)) >= T / 2}.

    They differ only where a set of smallest values weighs T / 2, up to 2^-31 c of the largest weight. With
    equal weights this is the ordinary median: the middle value, or the midpoint of the two middle ones.
    ``kept``: all clusters, since each may supply some coordinate.

    Breakdown point: clusters that weigh less than T / 2 together cannot move a coordinate out of the range of
    the others; with equal weights these are floor((c - 1) / 2) clusters.
    Cost: one sort of c values a coordinate; unequal weights add at most log2(c) + 1 passes, fewer the closer
    they are. O(d) memory.
    Source: Yin et al. 2018 (arXiv 1803.01498), definition 1, with weights.
    """
    units = np.maximum(np.rint(stack.weights * (WEIGHT_UNITS / stack.weights.max())), 1.0)
    middle = _Middle(units)
    vector = np.empty(stack.dimension)
    for block in column_blocks(stack.means):
        if middle.equal:
            lower, upper = block.ranked[(stack.clusters - 1) // 2], block.ranked[stack.clusters // 2]
        else:
            lower, upper = middle.find(block)
        np.add(lower, upper, out=vector[block.at])
    vector /= 2.0
    return Aggregate(vector, everyone(stack))


class _Middle:
    """Where the weighted medians lie among c ranked values, for given integer weights (``units``)."""

    def __init__(self, units: F64) -> None:
        self.units = units
        half, slack = float(units.sum()) / 2.0, 2.0 * len(units)
        self.enough, self.too_much = half - slack, half + slack
        self.equal = bool((units == units[0]).all())
        # The lower median's rank is lowest if the heaviest clusters come first and highest if they come last.
        ascending = np.sort(units)
        self.lowest = int(np.searchsorted(np.cumsum(ascending[::-1]), self.enough))
        self.highest = int(np.searchsorted(np.cumsum(ascending), self.enough))

    def find(self, block: Block) -> tuple[F64, F64]:
        """Lower and upper weighted median of each column, by bisection over the ranks."""
        rows, ranked = block.rows, block.ranked
        columns = np.arange(rows.shape[1])
        low = np.full(rows.shape[1], self.lowest, dtype=np.intp)
        high = np.full(rows.shape[1], self.highest, dtype=np.intp)
        # Invariant: the values up to rank ``high`` weigh at least half, those below rank ``low`` weigh less.
        for _ in range((self.highest - self.lowest).bit_length()):
            middle = (low + high) >> 1
            enough = self._weight_up_to(_at(ranked, middle, columns), block) >= self.enough
            np.copyto(high, middle, where=enough)
            np.copyto(low, middle + 1, where=~enough)
        lower = _at(ranked, high, columns)
        upper = lower.copy()
        (tied,) = np.nonzero(self._weight_up_to(lower, block) <= self.too_much)
        if tied.size:
            following = np.count_nonzero(rows[:, tied] <= lower[tied], axis=0)
            upper[tied] = _at(ranked, following, tied)
        return lower, upper

    def _weight_up_to(self, values: F64, block: Block) -> F64:
        """By column, the weight of the rows that are at most ``values``; exact, being a sum of integers."""
        np.copyto(block.scratch, block.rows <= values)
        weight: F64 = self.units @ block.scratch
        return weight


def _at(ranked: F64, rank: Ranks, columns: Ranks) -> F64:
    """``ranked[rank[j], columns[j]]``, several times faster than by that expression."""
    values: F64 = ranked.take(rank * ranked.shape[1] + columns)
    return values
