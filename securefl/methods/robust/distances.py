"""Distances between cluster means, and an order of the means that does not depend on who is which cluster."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key

import numpy as np

from securefl.base.arrays import F64
from securefl.base.stack import Stack


def squared_distances(rows: F64) -> F64:
    """||x_i - x_j||^2 for all pairs of rows, f64 ``(c, c)``, symmetric, zero on the diagonal.

    From one Gram matrix: G_ii + G_jj - 2 G_ij. The absolute error is about 1e-15 * (||x_i||^2 + ||x_j||^2):
    differences below 1e-7 of the rows' norms drown, but a huge row spoils its own distances only. Distances
    whose terms overflow float64 count as infinite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        gram = rows @ rows.T
        norms = np.diagonal(gram)
        squared: F64 = norms[:, np.newaxis] + norms - 2.0 * gram
    squared[np.isnan(squared)] = np.inf
    np.maximum(squared, 0.0, out=squared)
    np.fill_diagonal(squared, 0.0)
    return squared


def in_row_order(stack: Stack, indices: Iterable[int]) -> list[int]:
    """The indices by their rows in lexicographic order: the smallest at the first coordinate that differs.

    Identical rows go by weight. Ties that are broken by it do not depend on the order of the clusters.
    """

    def compare(a: int, b: int) -> int:
        return _compare(stack.means[a], stack.means[b]) or int(np.sign(stack.weights[a] - stack.weights[b]))

    return sorted(indices, key=cmp_to_key(compare))


def _compare(left: F64, right: F64) -> int:
    """Negative if ``left`` comes first. Rows mostly differ early, so it looks at ever longer pieces."""
    start, size = 0, 1
    while start < left.size:
        a, b = left[start : start + size], right[start : start + size]
        (differ,) = np.nonzero(a != b)
        if differ.size:
            return -1 if a[differ[0]] < b[differ[0]] else 1
        start, size = start + size, 8 * size
    return 0
