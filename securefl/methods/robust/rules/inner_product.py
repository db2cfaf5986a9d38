"""Second-stage aggregation of Xiang et al. 2023."""

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from securefl import scenario
from securefl.base import header, text
from securefl.base.arrays import F64
from securefl.base.errors import ConfigError
from securefl.base.stack import AggregationResult, ClusterMeans, Kept
from securefl.methods.robust import distances
from securefl.methods.robust.pre_aggregation.norm_clipping import NormClipping
from securefl.methods.robust.products import combine, dots, total
from securefl.methods.robust.tolerance import places, rounds_remembered

_LARGEST = 1e290
"""Bound on scores, so that sums over all rounds stay finite."""


class InnerProduct(scenario.Rule, tag="inner-product", frozen=True, kw_only=True):
    """Mean of the clusters whose members have agreed most with descent on the server's data.

    It is the mean of the share ``gamma`` of rows with the highest scores -<x_i, server gradient>.

    Source: Xiang et al. 2023, algorithm 3. Scores below the mean of the highest ceil(``gamma`` c) become 0;
    the others are credited to every survivor of the cluster, undivided. The rule averages the ceil(``gamma``
    c) clusters whose members have the most credit, even if all are bad. A party that is often absent earns
    less.

    Ties go to the higher score in the round, then to the first in lexicographic order of the means. A
    negative threshold punishes the better clusters. ``all-scores`` has no threshold, and admits fewer
    attackers if scores are noisy (docs/results/second-stage.md).

    Without ``half_life`` trust is never lost, and an attack after an honest start profits. With it, scores
    decay by 2^(-1 / half_life) per round with scores, and are as informative as a sum over 2.9 ``half_life``
    rounds (docs/results/dp.md).

    Lengths are not bounded: use ``norm-clipping`` first; without DP-SGD ``normalised = "both"`` is better.
    The authors' code has that and ``momentum = 0.99``, and rounds ``gamma`` c down.

    Example:
        >>> rows = [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [-30.0, -40.0]]
        >>> InnerProduct(gamma=0.75)(rows, server_gradient=[-1.0, -1.0]).round(6)
        array([2., 3.])
    """

    gamma: scenario.Fraction
    """Share of the clusters believed honest. A share p of honest parties makes about p^m clean
    clusters of m."""
    select: Literal["accumulated", "per-round"] = "accumulated"
    """By the credit of all rounds so far, or by the scores of this round alone."""
    half_life: scenario.PositiveReal | None = None
    """Rounds with scores after which credit counts half; only with ``accumulated``. None: credit never
    decays, as in Algorithm 3."""
    credit: Literal["above-mean", "all-scores"] = "above-mean"
    """Scores that count: those at least the mean of the highest, or all scores, including negative ones."""
    members: Literal["mean", "min"] = "mean"
    """Credit of a cluster: the mean or the minimum over its members."""
    divide_by: Literal["selected", "all"] = "selected"
    """Divisor of the sum of the selected clusters: their weight, as in the authors' code, or the weight of
    all clusters (Algorithm 1)."""
    normalised: Literal["none", "gradient", "upload", "both"] = "none"
    """Vectors that are scaled to length 1 before the product."""
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """v <- ``momentum`` v + (1 - ``momentum``) gradient; scores are products with v."""

    @property
    def server_data(self) -> scenario.ServerData:
        return "all"

    def withstands(self, clusters: int) -> int:
        # The largest product wins, for any gamma.
        return 0

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return inner_product(stack, self)

    def facts(self, plan: scenario.Aggregation, p_clean: float) -> Iterator[header.Sentence]:
        if plan.byzantine and self.gamma > p_clean + 1e-9:
            clean = f"a cluster is clean with probability {text.percent(p_clean)} only"
            yield header.limits(f"GAMMA {self.gamma:g} IS LARGE", clean)
        if plan.byzantine and not any(isinstance(one, NormClipping) for one in plan.pre_aggregation):
            yield header.limits("LENGTHS OF UPDATES ARE UNBOUNDED", "set pre_aggregation to norm-clipping")
        if self.half_life is not None:
            rounds = f"{rounds_remembered(self.half_life):.3g}"
            yield header.tolerance(
                more=f"trust with this half-life is as telling as a sum over {rounds} rounds"
            )

    def check(self, path: str) -> None:
        if self.half_life is not None and self.select == "per-round":
            raise ConfigError(
                f"{path}.half_life",
                'select = "per-round" keeps no scores, so half_life has no effect',
                'leave it out, or select = "accumulated"',
            )


def inner_product(stack: ClusterMeans, rule: InnerProduct) -> AggregationResult:
    """Return the sum of the k = ceil(gamma c) most trusted clusters over their weight.

    With ``divide_by`` = "all" it is over the weight of all clusters. Trust is ``stack.trust``, the sum of the
    members' gains (:func:`trust_gains`) in all rounds, or by default the gain in this round. Ties are
    frequent: they go to the higher score in this round, then to the first row in lexicographic order.
    ``kept``: the selected clusters.

    Breakdown point: 0. A long row along descent puts all others below the threshold and is selected at full
    length. So bound lengths first (Xiang et al. test the norm). No other cluster is selected while honest
    clusters always have the highest products, all positive, and are at least k.
    Cost: O(c d) time; O(c + d) memory.
    Source: Xiang, Wang, Lin, Wang 2023, "Practical differentially private and Byzantine-resilient federated
    learning" (arXiv 2304.09762), algorithm 3, lines 5 to 16, on cluster means instead of uploads. It leaves
    ties open.

    Raises:
        UsageError: the stack has no server gradient.
    """
    scores = products(stack, rule)
    trust = _credit(scores, rule) if stack.trust is None else stack.trust
    kept = _most(stack, trust, scores, places(rule.gamma, stack.clusters))
    weights = np.where(kept, stack.weights, 0.0)
    whole = stack.weights if rule.divide_by == "all" else weights
    return AggregationResult(combine(weights / total(whole), stack.means), kept)


def trust_gains(stack: ClusterMeans, rule: InnerProduct) -> F64:
    """Return each cluster's addition to its members' trust in this round, f64 ``(c,)`` (lines 6 to 12).

    With ``credit`` = "all-scores" it is every score unchanged. A threshold separates members of larger
    clusters worse (tests/unit/round/test_trust.py).

    Raises:
        UsageError: the stack has no server gradient.
    """
    return _credit(products(stack, rule), rule)


def _credit(scores: F64, rule: InnerProduct) -> F64:
    return above_mean(scores, rule.gamma) if rule.credit == "above-mean" else scores


def products(stack: ClusterMeans, rule: InnerProduct) -> F64:
    """Return <-gradient, x_j> by cluster, f64 ``(c,)``, positive along descent; finite.

    With ``normalised`` the gradient, the row or both have length 1; a zero vector stays zero.

    Raises:
        UsageError: the stack has no server gradient.
    """
    descent = -stack.need_server_gradient()
    length = float(distances.lengths(descent[np.newaxis])[0])
    if rule.normalised in {"upload", "both"}:
        _, scores = distances.polar(stack.means, descent)
        with np.errstate(over="ignore"):
            return _finite(scores if rule.normalised == "both" else scores * length)
    with np.errstate(over="ignore", invalid="ignore"):
        (scores,) = dots(stack.means, descent)
        lost = ~np.isfinite(scores)
        if lost.any():
            norms, angles = distances.polar(stack.means[lost], descent)
            scores[lost] = norms * angles * length
        if rule.normalised == "gradient" and length > 0:
            scores /= length
    return _finite(scores)


def above_mean(scores: F64, gamma: float) -> F64:
    """Return the scores, with 0 for those below the mean of the ceil(gamma c) highest (lines 10 to 12).

    As printed, even if that mean is negative: then scores between it and 0 stay, and lower ones become 0.
    """
    highest = np.sort(scores)[len(scores) - places(gamma, len(scores)) :]
    # Rounding may put the mean of equal numbers above them.
    threshold = min(total(highest) / len(highest), float(highest[-1]))
    return np.where(scores < threshold, 0.0, scores)


def pool_trust(trust: F64, row_of: npt.NDArray[np.intp], rows: int) -> F64:
    """Return the mean trust of the clusters in each of ``rows`` rows, f64 ``(rows,)``."""
    return np.bincount(row_of, trust, rows) / np.bincount(row_of, minlength=rows)


def _most(stack: ClusterMeans, trust: F64, scores: F64, keep: int) -> Kept:
    """Return the ``keep`` rows with the most trust."""
    order = np.lexsort((-scores, -trust))
    last = order[keep - 1]
    tied = (trust == trust[last]) & (scores == scores[last])
    kept: Kept = np.zeros(stack.clusters, dtype=np.bool_)
    kept[order[:keep]] = True
    kept &= ~tied
    kept[distances.in_row_order(stack, np.flatnonzero(tied).tolist())[: keep - int(kept.sum())]] = True
    return kept


def _finite(scores: F64) -> F64:
    clipped: F64 = np.clip(np.nan_to_num(scores, nan=0.0), -_LARGEST, _LARGEST)
    return clipped
