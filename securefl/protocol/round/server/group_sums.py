"""Sums of task groups at the server: screen and aggregation (docs/adr/0026 and 0028)."""

from collections.abc import Mapping, Sequence

import numpy as np

from securefl.base import crypto
from securefl.base.arrays import F64
from securefl.base.stack import ClusterMeans
from securefl.methods import encoding, robust
from securefl.protocol.round.server import stacking
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey
from securefl.protocol.round.shared.slots import FIRST_SLOT


def group_of(drawn: Draw, key: ClusterKey) -> int:
    """Return the group whose updates a sum contains."""
    tasks = drawn.assignment.tasks
    return tasks[key[1]] if tasks else key[0] - FIRST_SLOT


def sums_of_group(sums: Sequence[stacking.ClusterSum], drawn: Draw, group: int) -> list[stacking.ClusterSum]:
    """Return the sums of one group's updates, in order."""
    return [opened for opened in sums if group_of(drawn, opened.key) == group]


def group_stack(
    plan: RunPlan,
    sums: Sequence[stacking.ClusterSum],
    drawn: Draw,
    group: int,
    reference: F64,
    totals: Mapping[ClusterKey, int] | None,
) -> ClusterMeans:
    """Return the cluster means of one group with at least one sum, f64 ``(c, d)``.

    ``reference`` is the mean of past aggregates, f64 ``(k d,)``; ``totals`` are the members in each sum of
    hidden groups.
    """
    at = slice(group * plan.length, (group + 1) * plan.length)
    if totals is None:
        return stacking.stack_sums(plan, sums, drawn.weights, reference[at])
    return _stack_by_count(plan, sums, totals, reference[at])


def _stack_by_count(
    plan: RunPlan, sums: Sequence[stacking.ClusterSum], totals: Mapping[ClusterKey, int], reference: F64
) -> ClusterMeans:
    """Return the means of slots by counts, as members are unknown."""
    counts = [totals[opened.key] for opened in sums]
    means = [
        plan.fixed_point.decode(encoding.from_ring(opened.ring), float(count))
        for opened, count in zip(sums, counts, strict=True)
    ]
    return ClusterMeans(
        means=np.stack(means),
        weights=np.array(counts, dtype=np.float64),
        survivors=np.array(counts, dtype=np.int64),
        reference=reference,
    )


def screen_sums(
    plan: RunPlan, sums: Sequence[stacking.ClusterSum], drawn: Draw, totals: Mapping[ClusterKey, int] | None
) -> list[stacking.ClusterSum]:
    """Return the sums whose means are at most ``groups.screen`` times the median length over all models.

    If a group's shortest mean exceeds that median, it replaces it for that group: a model with large steps
    keeps its sums. The bound never exceeds ``groups.screen`` squared times the median, or liars in all sums
    of a group would control its model, which stays unchanged instead.
    """
    factor = plan.scenario.groups.screen
    if factor is None or not sums:
        return list(sums)
    nothing = np.zeros(plan.total_parameters)
    long: dict[ClusterKey, float] = {}
    shortest: dict[int, float] = {}
    for group in sorted({group_of(drawn, opened.key) for opened in sums}):
        own = sums_of_group(sums, drawn, group)
        found = robust.lengths(group_stack(plan, own, drawn, group, nothing, totals).means)
        long |= {opened.key: length for opened, length in zip(own, found.tolist(), strict=True)}
        shortest[group] = float(found.min())
    usual = float(np.median(list(long.values())))
    most = {group: factor * max(usual, min(least, factor * usual)) for group, least in shortest.items()}
    return [opened for opened in sums if long[opened.key] <= most[group_of(drawn, opened.key)]]


def aggregate_groups(
    plan: RunPlan,
    sums: Sequence[stacking.ClusterSum],
    drawn: Draw,
    reference: F64,
    totals: Mapping[ClusterKey, int] | None,
) -> stacking.RoundAggregate:
    """Apply the scenario's rule to each group's sums (Algorithm 1 of BR-IFCA).

    Sums that are too long among all groups are rejected first. A group with fewer sums left than the rule
    needs gets no update. Arguments are as for :func:`group_stack`.
    """
    update, moved = np.zeros(plan.total_parameters), np.zeros(plan.total_parameters, dtype=np.bool_)
    kept: list[ClusterKey] = []
    left = screen_sums(plan, sums, drawn, totals)
    rejected = sorted({opened.key for opened in sums} - {opened.key for opened in left})
    needed = robust.clusters_needed_by(plan.scenario.aggregation)
    for group in range(plan.models):
        own = sums_of_group(left, drawn, group)
        if len(own) < needed:
            continue
        at = slice(group * plan.length, (group + 1) * plan.length)
        stack = group_stack(plan, own, drawn, group, reference, totals)
        seed = crypto.digest("pre-aggregation", drawn.seed, group)
        result = robust.aggregate_all(plan.scenario.aggregation, stack, seed)
        update[at], moved[at] = result.vector, True
        for opened, used in zip(own, result.kept.tolist(), strict=True):
            (kept if used else rejected).append(opened.key)
    return stacking.RoundAggregate(
        update if moved.any() else None, tuple(sorted(kept)), tuple(sorted(rejected)), covered=moved
    )
