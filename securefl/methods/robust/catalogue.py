"""Application of pre-aggregation and rule to cluster means."""

from dataclasses import replace

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.errors import RunAbortedError, UsageError
from securefl.base.stack import AggregationResult, ClusterMeans, Places
from securefl.methods.robust.rules import inner_product
from securefl.methods.robust.tolerance import clusters_needed_by


def aggregate_all(plan: scenario.Aggregation, stack: ClusterMeans, seed: bytes) -> AggregationResult:
    """Apply the scenario's pre-aggregation, in order, and then its rule.

    ``seed`` has at least 16 bytes, which no party could choose or foresee.

    Returns:
        The rule's result, with ``kept`` by cluster (a bucket's value for all its clusters).

    Raises:
        UsageError: fewer clusters than :func:`securefl.methods.robust.tolerance.clusters_needed_by`.
    """
    stack, row_of = _prepare_rows(plan, stack, seed)
    result = aggregate(plan.rule, stack)
    return AggregationResult(result.vector, result.kept[row_of])


def earned_by(
    plan: scenario.Aggregation, rule: inner_product.InnerProduct, stack: ClusterMeans, seed: bytes
) -> F64:
    """Return the trust that clusters earn with ``rule`` after pre-aggregation, f64 ``(c,)``.

    Arguments and errors as for :func:`aggregate_all`.
    """
    stack, row_of = _prepare_rows(plan, stack, seed)
    return inner_product.trust_gains(stack, rule)[row_of]


def _prepare_rows(
    plan: scenario.Aggregation, stack: ClusterMeans, seed: bytes
) -> tuple[ClusterMeans, Places]:
    """Return the rows for the rule, and by cluster the row in which it counts."""
    needed = clusters_needed_by(plan)
    if stack.clusters < needed:
        raise UsageError(
            f"cannot aggregate {stack.clusters} clusters: this aggregation needs at least {needed};"
            " form more clusters"
        )
    row_of: Places = np.arange(stack.clusters)
    if not plan.pre_aggregation:
        return stack, row_of
    trust = stack.trust
    stack = replace(stack, trust=None)
    for step in plan.pre_aggregation:
        stack, place = prepare(step, stack, seed)
        row_of = place[row_of]
    if trust is not None:
        stack = replace(stack, trust=inner_product.pool_trust(trust, row_of, stack.clusters))
    return stack, row_of


def prepare(step: scenario.PreAggregation, stack: ClusterMeans, seed: bytes) -> tuple[ClusterMeans, Places]:
    """Apply one step of pre-aggregation; return the new stack and, by old row, the row in which it counts."""
    with step.blame_part():
        stack_after, place = step.prepare(stack, seed)
    return stack_after, np.arange(stack.clusters) if place is None else place


def aggregate(rule: scenario.Rule, stack: ClusterMeans) -> AggregationResult:
    """Apply ``rule`` to the cluster means.

    Raises:
        UsageError: fewer clusters than ``rule.clusters_needed``, or a server rule without a server gradient.
        RunAbortedError: a custom rule raised an exception, or returned an invalid result.
    """
    needed = rule.clusters_needed
    if stack.clusters < needed:
        raise UsageError(f"{rule} cannot aggregate {stack.clusters} clusters: it needs at least {needed}")
    with rule.blame_part():
        result = rule.aggregate(stack)
    if rule.is_own:
        _check_result(rule, stack, result)
    return result


def _check_result(rule: scenario.Rule, stack: ClusterMeans, result: object) -> None:
    """Raise a RunAbortedError for a wrong type, dtype or shape."""
    clusters, length = stack.means.shape
    expected = [(np.dtype(np.float64), (length,)), (np.dtype(np.bool_), (clusters,))]
    found: object = type(result).__name__
    if isinstance(result, AggregationResult):
        found = [(getattr(one, "dtype", None), np.shape(one)) for one in (result.vector, result.kept)]
    if found != expected:
        wanted = f"an AggregationResult of f64 ({length},) and bool ({clusters},)"
        raise RunAbortedError(f"the aggregation rule {rule.name} returned {found}, expected {wanted}")
