"""Zeno++."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust import distances, products


class ZenoPlusPlus(scenario.Rule, tag="zeno++", frozen=True, kw_only=True):
    """Mean of the cluster means that pass a test on a gradient of the server's validation data.

    The mean of rows, scaled, with -<x_i, g> - rho ||x_i||^2 >= -eps, g = server gradient.

    SHARE's figures have (``rho``, ``eps``) = (1e-4, 0.2) in 2 to 4, (1e-5, 0.2) in 5, and (1e-5, 1) in 8 and
    9, whose baselines have ``eps`` = 5 (``PRESETS``). On digits (30 parties in clusters of 3, one at -10x)
    sums with (1e-4, 0.2) accept the attacker's cluster in every round from the second on. After 10 rounds the
    accuracy is 88 to 90 %, and 94 to 95 % with ``eps`` = 0, which never accepts it.

    Example:
        >>> rows = [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [-30.0, -40.0]]
        >>> ZenoPlusPlus()(rows, server_gradient=[-1.0, -1.0]).round(6)
        array([1.5 , 2.25])
    """

    scale: Literal["sum", "mean", "normalised"] = "normalised"
    """Scored vector: the cluster's share n_i / n of the sum (SHARE, Algorithm 2), its mean, or its mean
    scaled to the length of the validation gradient (the original Zeno++)."""
    rho: scenario.NonNegativeReal = 1e-4
    """Penalty on the squared length in the score."""
    eps: scenario.NonNegativeReal = 0.0
    """A score of at least -``eta`` x ``eps`` is accepted. It is compared with a squared gradient, so a
    value above 0 accepts all updates once gradients are small."""
    eta: scenario.PositiveReal = 1.0
    """The server's learning rate in the score."""
    divide_by: Literal["all", "accepted"] = "all"
    """Weight that divides the sum of the accepted updates: of all clusters (Algorithm 2), or of the accepted
    ones."""
    batch: scenario.Positive = 128
    """Validation samples for each gradient."""

    @property
    def server_data(self) -> scenario.ServerData:
        return self.batch

    def withstands(self, clusters: int) -> int:
        # A test of rescaled vectors does not bound the length of the means.
        return 0 if self.scale == "normalised" or self.rho == 0 else clusters

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return zeno_plus_plus(stack, self)


PRESETS: Mapping[str, ZenoPlusPlus] = MappingProxyType(
    {
        "share-figures-2-4": ZenoPlusPlus(scale="normalised", rho=1e-4, eps=0.2),
        "share-figure-5": ZenoPlusPlus(scale="normalised", rho=1e-5, eps=0.2),
        "share-figures-8-9": ZenoPlusPlus(scale="normalised", rho=1e-5, eps=1.0),
        "share-figures-8-9-baseline": ZenoPlusPlus(scale="normalised", rho=1e-5, eps=5.0),
    }
)
"""Parameters published by SHARE (section 6, appendix D), all with eta = 1.

The last is for the baselines: without SHARE (Figure 8) and with fixed clusters (Figure 9). Algorithm 2 read
literally has the scale "sum", with which the published thresholds accept -10x updates
(tests/unit/robust/test_zeno.py).
"""


def zeno_plus_plus(stack: ClusterMeans, rule: ZenoPlusPlus) -> AggregationResult:
    """Return the sum of the clusters whose score is at least -eta eps, scaled as in FedAvg.

    That is sum_(accepted) w_j x_j over the weight of all clusters, as in Algorithm 2, or of the accepted
    (``divide_by``); zero if none is accepted. For any ``scale`` the accepted means keep their own length.
    ``kept``: the accepted clusters.

    The threshold eps is compared with -<gradient, g>, so it has a scale. With "sum" and "mean" a harmful
    update passes once its inner product is below eps. With "normalised" the direction decides; but for eps >
    0 every direction passes once ||gradient||^2 (1 + rho / eta) <= eps. At eps = 0, the default, a cluster is
    accepted if the cosine between it and descent is at least rho / eta.

    Breakdown point: none by number for "sum" and "mean" with rho > 0, which reject every vector longer than
    (||gradient|| + sqrt(||gradient||^2 + 4 rho eps / eta)) eta / (2 rho). 0 for "normalised": an accepted
    direction may have any length, so use norm clipping first, or bound updates by ``encoding.clip``.
    Cost: O(c d) time; O(c + d) memory.
    Source: Xie, Koyejo, Gupta 2020, "Zeno++: robust fully asynchronous SGD" (arXiv 1903.07020); Velicheti,
    Xia, Koyejo 2021 (SHARE), algorithm 2 and definition B.2.

    Raises:
        UsageError: the stack has no server gradient.
    """
    accepted = zeno_scores(stack, rule) >= -rule.eta * rule.eps
    if not accepted.any():
        return AggregationResult(np.zeros(stack.dimension), accepted)
    weights = np.where(accepted, stack.weights, 0.0)
    whole = stack.weights if rule.divide_by == "all" else weights
    return AggregationResult(products.combine(weights / products.total(whole), stack.means), accepted)


def zeno_scores(stack: ClusterMeans, rule: ZenoPlusPlus) -> F64:
    """Return -eta <gradient, g_j> - rho ||g_j||^2 by cluster, f64 ``(c,)`` (definition B.2); never NaN.

    By ``scale``, g_j is the cluster's mean times its share of the weight, the mean, or the mean rescaled to
    the gradient's length (zero stays zero).

    Raises:
        UsageError: the stack has no server gradient.
    """
    gradient = stack.need_server_gradient()
    length = float(distances.lengths(gradient[np.newaxis])[0])
    scored, angles = distances.polar(stack.means, gradient)
    if rule.scale == "normalised":
        scored = np.where(scored > 0, length, 0.0)
    elif rule.scale == "sum":
        scored = scored * (stack.weights / products.total(stack.weights))
    with np.errstate(over="ignore", invalid="ignore"):
        scores: F64 = -rule.eta * length * scored * angles - rule.rho * scored**2
    return np.where(np.isnan(scores), -np.inf, scores)
