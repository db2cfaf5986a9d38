"""Krum: the cluster mean with the closest neighbours."""

from __future__ import annotations

import numpy as np

from securefl.arrays import F64
from securefl.errors import UsageError
from securefl.robust.stack import Aggregate, Stack


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


def krum(stack: Stack, byzantine: int) -> Aggregate:
    """The row with the smallest sum of squared distances to its c - ``byzantine`` - 2 nearest other rows.

    Weights play no part. Ties, which are the rule for c = byzantine + 3 (two nearest neighbours score the
    same), go to the row that is smallest at the first coordinate in which they differ: not to the lowest
    index, so the order of the clusters does not matter. ``kept``: the chosen cluster only.

    The result *is* one cluster's mean, so publishing it publishes one opened sum.

    Breakdown point: ``byzantine`` rows if c >= 2 * byzantine + 3, with the chosen row then within
    sqrt(c - byzantine - 2) honest diameters of an honest one. That is where the guarantee ends.
    Unboundedly large rows win from min(c - byzantine - 1, max(byzantine + 2, ceil(c / 2))) on: either they
    fill each other's neighbourhoods, or every honest neighbourhood reaches as many of them as theirs reaches
    honest rows.
    Cost: one Gram matrix, O(c^2 d) time; O(c^2) memory.
    Source: Blanchard et al. 2017, "Machine learning with adversaries: Byzantine tolerant gradient descent",
    section 4 and proposition 4.2.

    Raises:
        UsageError: ``byzantine`` is negative, or c < byzantine + 3.
    """
    if byzantine < 0 or stack.clusters < byzantine + 3:
        raise UsageError(f"Krum with byzantine = {byzantine} is not defined for {stack.clusters} clusters")
    squared = squared_distances(stack.means)
    np.fill_diagonal(squared, np.inf)
    squared.sort(axis=1)
    scores = squared[:, : stack.clusters - byzantine - 2].sum(axis=1)
    chosen = _smallest(stack.means, np.flatnonzero(scores == scores.min()))
    kept = np.zeros(stack.clusters, dtype=np.bool_)
    kept[chosen] = True
    return Aggregate(stack.means[chosen].copy(), kept)


def _smallest(rows: F64, candidates: np.ndarray[tuple[int], np.dtype[np.intp]]) -> int:
    """The candidate whose row comes first in lexicographic order (the first of identical rows)."""
    best = int(candidates[0])
    for candidate in candidates[1:].tolist():
        (differ,) = np.nonzero(rows[candidate] != rows[best])
        if differ.size and rows[candidate, differ[0]] < rows[best, differ[0]]:
            best = candidate
    return best
