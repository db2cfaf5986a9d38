"""The opened sums of task groups: whose updates they hold, and their means (docs/adr/0026)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from securefl.base.arrays import F64
from securefl.base.stack import Stack
from securefl.methods.encoding import from_ring
from securefl.protocol.round.server.stacking import ClusterSum, stack_of
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey
from securefl.protocol.round.shared.slots import FIRST_SLOT


def group_of(drawn: Draw, key: ClusterKey) -> int:
    """The group whose updates a sum holds."""
    tasks = drawn.assignment.tasks
    return tasks[key[1]] if tasks else key[0] - FIRST_SLOT


def of_group(sums: Sequence[ClusterSum], drawn: Draw, group: int) -> list[ClusterSum]:
    """Those that hold updates of one group, in their order."""
    return [opened for opened in sums if group_of(drawn, opened.key) == group]


def group_stack(
    plan: RunPlan,
    sums: Sequence[ClusterSum],
    drawn: Draw,
    group: int,
    reference: F64,
    totals: Mapping[ClusterKey, int] | None,
) -> Stack:
    """The cluster means of one group with a sum or more; f64 ``(c, d)`` and what goes with them.

    Args:
        plan: of the run.
        sums: opened in the round, of updates of this group (:func:`of_group`).
        drawn: the round's clusters, weights and seed.
        group: the model's number.
        reference: mean of the past aggregates of all models, f64 ``(k d,)``, for rules with a memory.
        totals: members in each sum, where groups are hidden.
    """
    at = slice(group * plan.length, (group + 1) * plan.length)
    if totals is None:
        return stack_of(plan, sums, drawn.weights, reference[at])
    return _counted_stack(plan, sums, totals, reference[at])


def _counted_stack(
    plan: RunPlan, sums: Sequence[ClusterSum], totals: Mapping[ClusterKey, int], reference: F64
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
