"""All rules, and all that may stand in front of them, by their configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

import numpy as np

from securefl.arrays import F64
from securefl.config.aggregation import (
    AdaptiveClipping,
    Aggregation,
    Bucketing,
    Bulyan,
    CentredClipping,
    CoordinateRule,
    DistanceRule,
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
    SignMajority,
    TrimmedMean,
    ZenoPlusPlus,
)
from securefl.config.rules import breakdown, clusters_needed, clusters_needed_by
from securefl.errors import UsageError
from securefl.robust.bucketing import Places, bucket
from securefl.robust.bulyan import bulyan
from securefl.robust.centred_clipping import centred_clipping
from securefl.robust.clipping import clip_adaptively, clip_norms
from securefl.robust.fltrust import fltrust
from securefl.robust.geometric_median import geometric_median
from securefl.robust.inner_product import earned, inner_product, pooled
from securefl.robust.krum import krum
from securefl.robust.mean import weighted_mean
from securefl.robust.mean_around_median import mean_around_median
from securefl.robust.median import weighted_median
from securefl.robust.minimum_diameter import minimum_diameter
from securefl.robust.mixing import mix_nearest
from securefl.robust.multi_krum import multi_krum
from securefl.robust.sign_majority import sign_majority
from securefl.robust.stack import Aggregate, Stack
from securefl.robust.trimmed_mean import trimmed_mean
from securefl.robust.weight_trimmed_mean import weight_trimmed_mean
from securefl.robust.zeno import zeno_plus_plus

__all__ = ["aggregate", "aggregate_all", "breakdown", "clusters_needed", "earned_by", "prepare"]


def aggregate_all(plan: Aggregation, stack: Stack, seed: bytes) -> Aggregate:
    """Apply the scenario's pre-aggregation, in order, and then its rule.

    Args:
        plan: the scenario's ``[aggregation]``.
        stack: the cluster means.
        seed: 16 bytes or more that nobody could choose or foresee, for what is drawn.

    Returns:
        The rule's result, with ``kept`` by cluster: for those of one bucket, what became of the bucket.

    Raises:
        UsageError: fewer clusters than :func:`securefl.config.rules.clusters_needed_by`.
    """
    stack, row_of = _prepared(plan, stack, seed)
    result = aggregate(plan.rule, stack)
    return Aggregate(result.vector, result.kept[row_of])


def earned_by(plan: Aggregation, rule: InnerProduct, stack: Stack, seed: bytes) -> F64:
    """What the clusters earn with ``rule``, behind the scenario's pre-aggregation, f64 ``(c,)``.

    Arguments and errors as for :func:`aggregate_all`. All clusters of one bucket earn what the bucket does.
    """
    stack, row_of = _prepared(plan, stack, seed)
    return earned(stack, rule)[row_of]


def _prepared(plan: Aggregation, stack: Stack, seed: bytes) -> tuple[Stack, Places]:
    """What the rule sees, and by cluster the row in which it counts."""
    needed = clusters_needed_by(plan)
    if stack.clusters < needed:
        raise UsageError(f"this aggregation needs {needed} clusters, not {stack.clusters}")
    row_of: Places = np.arange(stack.clusters)
    if not plan.pre_aggregation:
        return stack, row_of
    trust = stack.trust
    stack = replace(stack, trust=None)
    for step in plan.pre_aggregation:
        stack, place = prepare(step, stack, seed)
        row_of = place[row_of]
    if trust is not None:
        stack = replace(stack, trust=pooled(trust, row_of, stack.clusters))
    return stack, row_of


def prepare(step: PreAggregation, stack: Stack, seed: bytes) -> tuple[Stack, Places]:
    """Apply one step of pre-aggregation.

    Returns:
        The new stack, and by row of the old one the row of the new one in which it counts.
    """
    same: Places = np.arange(stack.clusters)
    match step:
        case NormClipping(radius=radius):
            return clip_norms(stack, radius), same
        case Bucketing(size=size):
            return bucket(stack, size, seed)
        case NearestNeighbourMixing(byzantine=byzantine):
            return mix_nearest(stack, byzantine), same
        case AdaptiveClipping(byzantine=byzantine):
            return clip_adaptively(stack, byzantine), same
        case _:
            assert_never(step)


def aggregate(rule: Rule, stack: Stack) -> Aggregate:
    """Apply ``rule`` to the cluster means.

    Raises:
        UsageError: fewer clusters than :func:`clusters_needed`; where clusters were lost to dropouts, the
            caller has to notice first. Or a server rule, and the stack has no server gradient.
    """
    needed = clusters_needed(rule)
    if stack.clusters < needed:
        raise UsageError(f"{rule} needs {needed} clusters, not {stack.clusters}")
    match rule:
        case Mean() | Median() | TrimmedMean() | MeanAroundMedian() | SignMajority():
            return _by_coordinate(rule, stack)
        case FlTrust():
            return fltrust(stack)
        case ZenoPlusPlus():
            return zeno_plus_plus(stack, rule)
        case InnerProduct():
            return inner_product(stack, rule)
        case _:
            return _by_distance(rule, stack)


def _by_coordinate(rule: CoordinateRule, stack: Stack) -> Aggregate:
    match rule:
        case Mean():
            return weighted_mean(stack)
        case Median():
            return weighted_median(stack)
        case TrimmedMean(trim="weight", beta=beta):
            return weight_trimmed_mean(stack, beta or 0.0)
        case TrimmedMean():
            return trimmed_mean(stack, rule.at_each_end(stack.clusters))
        case MeanAroundMedian(byzantine=byzantine):
            return mean_around_median(stack, byzantine)
        case SignMajority(step=step):
            return sign_majority(stack, step)
        case _:
            assert_never(rule)


def _by_distance(rule: DistanceRule, stack: Stack) -> Aggregate:
    match rule:
        case Krum(byzantine=byzantine):
            return krum(stack, byzantine)
        case MultiKrum(byzantine=byzantine, keep=keep):
            return multi_krum(stack, byzantine, keep)
        case Bulyan(byzantine=byzantine):
            return bulyan(stack, byzantine)
        case GeometricMedian(smoothing=smoothing, tolerance=tolerance, iterations=iterations):
            return geometric_median(stack, smoothing, tolerance, iterations)
        case CentredClipping(radius=radius, iterations=iterations):
            return centred_clipping(stack, radius, iterations)
        case MinimumDiameter(byzantine=byzantine):
            return minimum_diameter(stack, byzantine)
        case _:
            assert_never(rule)
