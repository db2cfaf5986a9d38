"""How many clusters a rule needs and how many Byzantine ones it tolerates: arithmetic without arrays.

The rules themselves are in :mod:`securefl.robust`, which states the source of each number.
"""

from __future__ import annotations

import math
from typing import assert_never

from securefl.config.aggregation import (
    AdaptiveClipping,
    Aggregation,
    Bucketing,
    Bulyan,
    CentredClipping,
    FlTrust,
    GeometricMedian,
    InnerProduct,
    Krum,
    Mean,
    MeanAroundMedian,
    Median,
    MinimumDiameter,
    MultiKrum,
    NearestNeighbourMixing,
    NormClipping,
    PreAggregation,
    Rule,
    ServerRule,
    SignMajority,
    TrimmedMean,
    ZenoPlusPlus,
)


def clusters_needed(rule: Rule) -> int:
    """Fewest clusters that the rule is defined for."""
    match rule:
        case (
            Mean()
            | Median()
            | GeometricMedian()
            | CentredClipping()
            | SignMajority()
            | FlTrust()
            | ZenoPlusPlus()
            | InnerProduct()
        ):
            return 1
        case TrimmedMean(trim=trim):
            return 2 * trim + 1 if isinstance(trim, int) else 1
        case MeanAroundMedian(byzantine=byzantine) | MinimumDiameter(byzantine=byzantine):
            return 2 * byzantine + 1
        case Krum(byzantine=byzantine):
            return byzantine + 3
        case MultiKrum(byzantine=byzantine, keep=keep):
            return byzantine + max(3, keep or 0)
        case Bulyan(byzantine=byzantine):
            return 4 * byzantine + 3
        case _:
            assert_never(rule)


def breakdown(rule: Rule, clusters: int) -> int:
    """Most Byzantine clusters, out of ``clusters``, for which the rule's guarantee holds.

    Up to this number the result stays within bounds that the honest clusters and the server's own data alone
    determine, whatever the others say. Fewer clusters than the rule needs tolerate none. The numbers of the
    medians, of centred clipping, of votes on signs and of trimming by weight are for equal cluster weights;
    in general they tolerate every set of clusters with less than half, or with beta, of the total weight.
    """
    if clusters < clusters_needed(rule):
        return 0
    match rule:
        case Mean() | InnerProduct():
            # The longest product wins, whatever the share that is believed honest.
            most = 0
        case Median() | GeometricMedian() | CentredClipping() | SignMajority():
            most = (clusters - 1) // 2
        case TrimmedMean():
            most = rule.at_each_end(clusters)
        case MeanAroundMedian(byzantine=number):
            most = number
        case MinimumDiameter(byzantine=number) | Bulyan(byzantine=number):
            most = number
        case Krum(byzantine=number) | MultiKrum(byzantine=number):
            most = number if clusters >= 2 * number + 3 else 0
        case FlTrust():
            most = clusters
        case ZenoPlusPlus(scale=scale, rho=rho):
            # The test of a rescaled vector says nothing about its length, and what is accepted keeps its own.
            most = 0 if scale == "normalised" or rho == 0 else clusters
        case _:
            assert_never(rule)
    return most


def server_rule(rule: Rule) -> ServerRule | None:
    """The rule itself if it cannot do without a gradient of data that the server holds."""
    return rule if isinstance(rule, FlTrust | ZenoPlusPlus | InnerProduct) else None


def needs_server_gradient(rule: Rule) -> bool:
    """Whether the rule cannot do without a gradient of data that the server holds itself."""
    return server_rule(rule) is not None


def places(gamma: float, clusters: int) -> int:
    """ceil(gamma c): how many of ``clusters`` >= 1 rows a share of 0 < ``gamma`` <= 1 is, at least one."""
    # 0.07 * 100 is 7.000000000000001: an exact share must not gain a row by rounding.
    return max(1, math.ceil(gamma * clusters - 1e-9))


def rounds_remembered(half_life: float) -> float:
    """How many rounds' plain sum tells two means apart as well as the sum in which they fade, after long.

    Of independent scores with mean m and deviation s a plain sum over w rounds has the ratio m sqrt(w) / s;
    the fading one goes to m / s sqrt((1 + lambda) / (1 - lambda)), lambda = 2^(-1 / ``half_life``), so that
    w = (1 + lambda) / (1 - lambda) = coth(ln 2 / (2 ``half_life``)), about 2.9 half-lives. At least 1;
    infinite where that is beyond the range of numbers.
    """
    rate = math.log(2) / 2 / half_life
    return 1 / math.tanh(rate) if rate else math.inf


def clusters_needed_by(plan: Aggregation) -> int:
    """Fewest clusters for the rule together with what stands in front of it."""
    needed = clusters_needed(plan.rule)
    for step in reversed(plan.pre_aggregation):
        needed = _needed_before(step, needed)
    return needed


def withstood(plan: Aggregation, clusters: int) -> int:
    """Most Byzantine clusters that the rule withstands together with what stands in front of it.

    Pre-aggregation is never credited with more than the rule has: it can only lower the number. A Byzantine
    cluster spoils one bucket, and nearest-neighbour mixing keeps honest rows honest up to its own number.
    """
    if clusters < clusters_needed_by(plan):
        return 0
    rows, most = clusters, clusters
    for step in plan.pre_aggregation:
        if isinstance(step, Bucketing):
            rows = -(-rows // step.size)
        elif isinstance(step, NearestNeighbourMixing):
            most = min(most, step.byzantine)
    return min(most, breakdown(plan.rule, rows))


def _needed_before(step: PreAggregation, rows: int) -> int:
    """Fewest rows that ``step`` turns into ``rows`` at least."""
    match step:
        case NormClipping():
            return rows
        case Bucketing(size=size):
            return (rows - 1) * size + 1
        case NearestNeighbourMixing(byzantine=byzantine) | AdaptiveClipping(byzantine=byzantine):
            return max(rows, 2 * byzantine + 1)
        case _:
            assert_never(step)
