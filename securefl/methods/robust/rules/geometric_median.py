"""Geometric median (RFA)."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import AggregationResult, ClusterMeans, all_kept
from securefl.methods.robust import products
from securefl.methods.robust.distances import Span


class GeometricMedian(scenario.Rule, tag="geometric-median", frozen=True, kw_only=True):
    """Point with the smallest weighted sum of distances to the cluster means (RFA).

    argmin_z sum_i w_i ||x_i - z||, by smoothed Weiszfeld steps.

    Example:
        >>> GeometricMedian()([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]]).round(6)
        array([2.00166 , 2.999104])
    """

    smoothing: scenario.PositiveReal = 1e-6
    """Distance, in the unit of the parameters, below which a row's weight stops growing."""
    tolerance: scenario.PositiveReal = 1e-10
    """Smallest relative decrease of the sum of distances for another iteration."""
    iterations: scenario.Positive = 1000
    """Largest number of iterations."""

    def withstands(self, clusters: int) -> int:
        return (clusters - 1) // 2

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return geometric_median(stack, self.smoothing, self.tolerance, self.iterations)


def geometric_median(
    stack: ClusterMeans, smoothing: float, tolerance: float, iterations: int
) -> AggregationResult:
    """Return the point v with the smallest sum_i w_i h(||x_i - v||), by smoothed Weiszfeld iteration.

    h(t) = t from ``smoothing`` on, and t^2 / (2 smoothing) + smoothing / 2 below it. One iteration is

        v <- sum_i b_i x_i / sum_i b_i,    b_i = w_i / max(smoothing, ||x_i - v||).

    The start is one such step, with the median distance for ``smoothing``, from the row with the smallest
    weighted sum of distances (the mean of these points if several rows tie). From the mean, as in the source,
    log(size of the largest row) more iterations are needed. The iteration stops when the sum decreases by
    less than ``tolerance`` times the sum, or after ``iterations``. Minimisers on a segment, as for two equal
    clusters, are not unique; the start decides. ``kept``: all clusters.

    Breakdown point: clusters of less than half of the weight, floor((c - 1) / 2) equal ones, cannot move v
    farther from the others than a constant times their diameter.
    Cost: one Gram matrix, O(c^2) an iteration, one pass; O(c^2 + d) memory. Distances are exact to 1e-7 of
    the rows' lengths.
    Source: Pillutla, Kakade, Harchaoui 2022, "Robust aggregation for federated learning" (arXiv 1912.13445),
    algorithm 2; breakdown: Lopuhaa, Rousseeuw 1991, theorem 2.2.

    Raises:
        UsageError: ``smoothing`` or ``tolerance`` is not positive, or no iteration is allowed.
    """
    if not (smoothing > 0 and tolerance > 0 and iterations >= 1):
        raise UsageError(
            f"smoothing and tolerance must be positive and iterations at least 1; found {smoothing},"
            f" {tolerance} and {iterations}"
        )
    span, weights = Span(stack.means), stack.weights / products.total(stack.weights)
    shares = _start(span.between_rows(), weights, smoothing)
    cost = np.inf
    for _ in range(iterations):
        distances = span.distances(shares)
        bounded = np.maximum(distances, smoothing)
        lower = products.total(weights * (distances / bounded * distances + bounded)) / 2.0
        if cost - lower <= tolerance * lower:
            break
        cost, shares = lower, _normalise(weights / bounded)
    return AggregationResult(span.point(shares), all_kept(stack))


def _start(between: F64, weights: F64, smoothing: float) -> F64:
    """Return the shares of the rows in the first point."""
    sums = products.fold(between * weights[:, np.newaxis])
    # Sums of tied rows may differ by rounding.
    central = np.flatnonzero(sums <= sums.min() * (1 + 1e-12))
    starts = []
    for row in central.tolist():
        order = np.argsort(between[row], kind="stable")
        middle = int(np.searchsorted(np.cumsum(weights[order]), 0.5 - 1e-12))
        reach = max(smoothing, float(between[row, order[middle]]))
        starts.append(_normalise(weights / np.maximum(between[row], reach)))
    return products.fold(np.array(starts)) / len(starts)


def _normalise(values: F64) -> F64:
    shares: F64 = values / products.total(values)
    return shares
