"""From opened sums to one update for all models, group by group (docs/adr/0026)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from securefl.arrays import F64
from securefl.config.rules import clusters_needed_by
from securefl.crypto.labels import digest
from securefl.encoding.ring import from_ring
from securefl.robust.catalogue import aggregate_all
from securefl.robust.stack import Stack
from securefl.rounds.draw import Draw
from securefl.rounds.plan import Plan
from securefl.rounds.reports import ClusterKey
from securefl.rounds.slots import FIRST_SLOT
from securefl.rounds.stacking import ClusterSum, RoundAggregate, stack_of


def group_of(drawn: Draw, key: ClusterKey) -> int:
    """Whose updates a sum holds."""
    tasks = drawn.assignment.tasks
    return tasks[key[1]] if tasks else key[0] - FIRST_SLOT


def aggregate_groups(
    plan: Plan,
    sums: Sequence[ClusterSum],
    drawn: Draw,
    reference: F64,
    totals: Mapping[ClusterKey, int] | None,
) -> RoundAggregate:
    """Apply the scenario's rule to each group's sums by themselves (Algorithm 1 of BR-IFCA).

    A group with fewer sums than the rule needs gets no update.

    Args:
        plan: of the run.
        sums: all that were opened, of updates.
        drawn: the round's clusters, weights and seed.
        reference: mean of the past aggregates of all models, f64 ``(k d,)``.
        totals: members in each sum, where groups are hidden.
    """
    update, moved = np.zeros(plan.broadcast), np.zeros(plan.broadcast, dtype=np.bool_)
    kept: list[ClusterKey] = []
    rejected: list[ClusterKey] = []
    needed = clusters_needed_by(plan.scenario.aggregation)
    for group in range(plan.models):
        own = _of_group(sums, drawn, group)
        if len(own) < needed:
            continue
        at = slice(group * plan.length, (group + 1) * plan.length)
        stack = group_stack(plan, own, drawn, group, reference, totals)
        seed = digest("pre-aggregation", drawn.seed, group)
        result = aggregate_all(plan.scenario.aggregation, stack, seed)
        update[at], moved[at] = result.vector, True
        for opened, used in zip(own, result.kept.tolist(), strict=True):
            (kept if used else rejected).append(opened.key)
    return RoundAggregate(
        update if moved.any() else None, tuple(sorted(kept)), tuple(sorted(rejected)), moved=moved
    )


def _of_group(sums: Sequence[ClusterSum], drawn: Draw, group: int) -> list[ClusterSum]:
    return [opened for opened in sums if group_of(drawn, opened.key) == group]


def group_stack(
    plan: Plan,
    sums: Sequence[ClusterSum],
    drawn: Draw,
    group: int,
    reference: F64,
    totals: Mapping[ClusterKey, int] | None,
) -> Stack:
    """The cluster means of one group with a sum or more; arguments as of :func:`aggregate_groups`."""
    own = _of_group(sums, drawn, group)
    at = slice(group * plan.length, (group + 1) * plan.length)
    if totals is None:
        return stack_of(plan, own, drawn.weights, reference[at])
    return _counted_stack(plan, own, totals, reference[at])


def _counted_stack(
    plan: Plan, sums: Sequence[ClusterSum], totals: Mapping[ClusterKey, int], reference: F64
) -> Stack:
    """Means of slots: each sum by its count, whose members are not known."""
    counts = [totals[opened.key] for opened in sums]
    means = [
        plan.fixed_point.decode(from_ring(opened.ring), float(count))
        for opened, count in zip(sums, counts, strict=True)
    ]
    return Stack(
        means=np.stack(means),
        weights=np.array(counts, dtype=np.float64),
        survivors=np.array(counts, dtype=np.int64),
        reference=reference,
    )
