"""Weighted mean."""

from typing import ClassVar

from securefl import scenario
from securefl.base.stack import AggregationResult, ClusterMeans, all_kept
from securefl.methods.robust.products import combine


class Mean(scenario.Rule, tag="mean", frozen=True, kw_only=True):
    """Weighted mean sum_i w_i x_i / sum_i w_i: without faults equal to FedAvg.

    Example:
        >>> Mean()([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]])
        array([ 26.5 , -10.25])
    """

    by_coordinate: ClassVar[bool] = True

    def withstands(self, clusters: int) -> int:
        return 0

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return weighted_mean(stack)


def weighted_mean(stack: ClusterMeans) -> AggregationResult:
    """Return ``sum_i w_i x_i / sum_i w_i``: without faults this is FedAvg over all survivors.

    The bits depend only on the order of the clusters. ``kept``: all clusters.

    Breakdown point: 0; one row can move the result anywhere.
    Cost: O(c d) time, O(d) memory.
    Source: McMahan et al. 2017 (arXiv 1602.05629), algorithm 1.
    """
    vector = combine(stack.weights, stack.means)
    vector /= stack.weights.sum()
    return AggregationResult(vector, all_kept(stack))
