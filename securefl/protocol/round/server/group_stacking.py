"""Stacking of opened sums into one update for all models, group by group (docs/adr/0026)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from securefl.base.arrays import F64
from securefl.base.crypto import digest
from securefl.methods.robust import aggregate_all, clusters_needed_by
from securefl.protocol.round.server.group_screen import screened
from securefl.protocol.round.server.group_sums import group_stack, of_group
from securefl.protocol.round.server.stacking import ClusterSum, RoundAggregate
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey


def aggregate_groups(
    plan: RunPlan,
    sums: Sequence[ClusterSum],
    drawn: Draw,
    reference: F64,
    totals: Mapping[ClusterKey, int] | None,
) -> RoundAggregate:
    """Apply the scenario's rule to each group's sums by themselves (Algorithm 1 of BR-IFCA).

    Sums that are too long among those of all groups are rejected first. A group with fewer sums left than the
    rule needs gets no update.

    Args:
        plan: of the run.
        sums: all that were opened, of updates.
        drawn: the round's clusters, weights and seed.
        reference: mean of the past aggregates of all models, f64 ``(k d,)``.
        totals: members in each sum, where groups are hidden.
    """
    update, moved = np.zeros(plan.broadcast), np.zeros(plan.broadcast, dtype=np.bool_)
    kept: list[ClusterKey] = []
    left = screened(plan, sums, drawn, totals)
    rejected = sorted({opened.key for opened in sums} - {opened.key for opened in left})
    needed = clusters_needed_by(plan.scenario.aggregation)
    for group in range(plan.models):
        own = of_group(left, drawn, group)
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
