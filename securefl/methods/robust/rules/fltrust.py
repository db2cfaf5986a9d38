"""FLTrust."""

import numpy as np

from securefl import scenario
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust import distances, products


class FlTrust(scenario.Rule, tag="fltrust", frozen=True, kw_only=True):
    """Mean of cluster means, scaled to the length of the server's update and weighted by alignment with it.

    sum_i TS_i (||g|| / ||x_i||) x_i / sum_i TS_i, TS_i = max(0, cos(x_i, g)), g = - server gradient.

    Example:
        >>> rows = [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]]
        >>> FlTrust()(rows, server_gradient=[-1.0, -1.0]).round(6)
        array([0.806453, 1.01187 ])
    """

    @property
    def server_data(self) -> scenario.ServerData:
        return "training"

    def withstands(self, clusters: int) -> int:
        return clusters

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return fltrust(stack)


def fltrust(stack: ClusterMeans) -> AggregationResult:
    """Return the mean of the rows' directions, weighted by trust, at the length of the server's update u.

    With s_i = max(0, cos(x_i, u)) it is

        sum_i s_i ||u|| x_i / ||x_i||  /  sum_i s_i,

    or zero if no row has s_i > 0. u is minus the stack's server gradient, for which the server passes minus
    its own update. Weights have no effect. ``kept``: clusters with s_i > 0.

    Breakdown point: none by number. The result is no longer than u and at no obtuse angle to it; its quality
    depends on the server's data.
    Cost: O(c d) time; O(c + d) memory.
    Source: Cao, Fang, Liu, Gong 2021, "FLTrust: Byzantine-robust federated learning via trust bootstrapping"
    (arXiv 2012.13995), algorithm 2.

    Raises:
        UsageError: the stack has no server gradient.
    """
    gradient = stack.need_server_gradient()
    norms, angles = distances.polar(stack.means, -gradient)
    trust = np.maximum(angles, 0.0)
    kept = trust > 0
    if not kept.any():
        return AggregationResult(np.zeros(stack.dimension), kept)
    target = float(distances.lengths(gradient[np.newaxis])[0])
    shares = np.zeros(stack.clusters)
    np.divide(trust, norms, out=shares, where=kept)
    return AggregationResult(products.combine(shares * (target / products.total(trust)), stack.means), kept)
