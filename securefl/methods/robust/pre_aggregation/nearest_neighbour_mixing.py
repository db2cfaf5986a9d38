"""Nearest-neighbour mixing."""

import math
from dataclasses import replace

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import ClusterMeans, Kept, Places
from securefl.methods.robust import products
from securefl.methods.robust.distances import squared_distances


class NearestNeighbourMixing(
    scenario.PreAggregation, tag="nearest-neighbour-mixing", frozen=True, kw_only=True
):
    """Means of the c - ``byzantine`` nearest cluster means of each cluster mean, itself included.

    Example:
        >>> NearestNeighbourMixing(byzantine=1)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]])
        array([[  2.        ,   3.        ],
               [  2.        ,   3.        ],
               [  2.        ,   3.        ],
               [ 35.        , -14.33333333]])
    """

    byzantine: scenario.NonNegative
    """f, rows with Byzantine members. Needs 2 f + 1 rows, withstands f."""

    def rows_needed(self, rows: int) -> int:
        return max(rows, 2 * self.byzantine + 1)

    def withstands(self, rows: int) -> int:
        return min(rows, self.byzantine)

    def prepare(self, stack: ClusterMeans, seed: bytes) -> tuple[ClusterMeans, Places | None]:
        return mix_nearest(stack, self.byzantine), None


def mix_nearest(stack: ClusterMeans, byzantine: int) -> ClusterMeans:
    """Replace each row by the weighted mean of its c - ``byzantine`` nearest rows, itself included.

    Nearest rows are counted without weights. Rows equally far at the cut share the remaining places evenly.
    Weights and survivors stay; ``noise_std`` is that of the noisiest mixture.

    Breakdown point: ``byzantine`` rows, and at most that of the rule. The neighbourhood of an honest row then
    lies within the honest diameter, and any robust rule has an error of the optimal order.
    Cost: one Gram matrix and one product (c, c) x (c, d), O(c^2 d) time; O(c d + c^2) memory.
    Source: Allouah et al. 2023, "Fixing by mixing: a recipe for optimal Byzantine ML under heterogeneity"
    (arXiv 2302.01772), algorithm 2.

    Raises:
        UsageError: ``byzantine`` is negative, or not 2 * byzantine < c.
    """
    clusters = stack.clusters
    if byzantine < 0 or clusters <= 2 * byzantine:
        raise UsageError(
            f"byzantine must be at least 0 and below half of the {clusters} clusters, found {byzantine}"
        )
    near, at_cut, part = _places(squared_distances(stack.means), clusters - byzantine)
    # The weights add up to at most 1/256, so no sum overflows float64.
    weights = stack.weights * math.ldexp(1.0, -9 - math.frexp(products.total(stack.weights))[1])
    counted = (near + at_cut * part) * weights
    whole = np.array([products.total(row) for row in counted])
    means = products.subset_sums(near, stack.means, weights, whole)
    (shared,) = np.nonzero(at_cut.any(axis=1))
    if shared.size:
        means[shared] += part[shared] * products.subset_sums(
            at_cut[shared], stack.means, weights, whole[shared]
        )
    noise = max(
        math.sqrt(products.total(row * row)) / all_of_it
        for row, all_of_it in zip(counted, whole.tolist(), strict=True)
    )
    return replace(stack, means=means, noise_std=stack.noise_std * noise)


def _places(squared: F64, keep: int) -> tuple[Kept, Kept, F64]:
    """Return, by row, its ``keep`` nearest rows, rows that share places, and their shares, f64 ``(c, 1)``.

    Rows at the cut that fill their places exactly do not share.
    """
    cut = np.sort(squared, axis=1)[:, keep - 1 : keep]
    near, at_cut = squared < cut, squared == cut
    part = (keep - near.sum(axis=1, keepdims=True)) / at_cut.sum(axis=1, keepdims=True)
    whole = part == 1.0
    return near | (at_cut & whole), at_cut & ~whole, part
