"""Centred clipping."""

import numpy as np

from securefl import scenario
from securefl.base.errors import UsageError
from securefl.base.stack import AggregationResult, ClusterMeans, all_kept
from securefl.methods.robust.distances import Span
from securefl.methods.robust.products import total


class CentredClipping(scenario.Rule, tag="centred-clipping", frozen=True, kw_only=True):
    """Previous aggregate v plus the mean of the differences to it, each clipped to ``radius``.

    v + sum_i w_i (x_i - v) min(1, radius / ||x_i - v||) / sum_i w_i.

    Example:
        >>> rows = [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]]
        >>> CentredClipping(radius=2.0)(rows, reference=[1.0, 2.0]).round(6)
        array([2.046206, 2.371049])
    """

    radius: scenario.PositiveReal
    """L2 bound of each difference, in the unit of the parameters."""
    iterations: scenario.Positive = 1
    """Steps, each around the last result."""

    def withstands(self, clusters: int) -> int:
        return (clusters - 1) // 2

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return centred_clipping(stack, self.radius, self.iterations)


def centred_clipping(stack: ClusterMeans, radius: float, iterations: int = 1) -> AggregationResult:
    """Run ``iterations`` steps from the stack's reference (default zero).

        v <- v + sum_i w_i (x_i - v) min(1, radius / ||x_i - v||) / sum_i w_i.

    The reference is the previous aggregate, which honest updates leave slowly, so history limits attacks that
    are small in every round. ``kept``: all clusters.

    Breakdown point: a cluster moves v by at most its share of the weight times ``radius`` in an iteration. So
    the result is within ``iterations`` * ``radius`` of the reference. Byzantine clusters of less than half of
    the weight, floor((c - 1) / 2) equal ones, cannot move v away from the honest rows in any number of
    iterations. The source's guarantee of an error proportional to the honest variance needs at most a tenth
    of Byzantine weight, and a suitable radius.
    Cost: one Gram matrix, O(c^2) an iteration, one pass; O(c^2 + d) memory. Distances are exact to 1e-7 of
    the differences' lengths.
    Source: Karimireddy, He, Jaggi 2021, "Learning from history for Byzantine robust optimization" (arXiv
    2012.10333), section 4.

    Raises:
        UsageError: ``radius`` is not positive, or ``iterations`` is below 1.
    """
    if not radius > 0 or iterations < 1:
        raise UsageError(
            f"radius of centred clipping must be positive and iterations at least 1, found {radius}"
            f" and {iterations}"
        )
    span, weights = Span(stack.means, stack.reference), stack.weights / total(stack.weights)
    shares = np.zeros(stack.clusters)
    for _ in range(iterations):
        pull = weights * (radius / np.maximum(span.distances(shares), radius))
        shares = (1.0 - total(pull)) * shares + pull
    return AggregationResult(span.point(shares), all_kept(stack))
