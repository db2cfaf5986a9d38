"""Starts of task groups' models without an oracle: one plain model, parted again and again.

In the first ``groups.warmup`` rounds everybody learns the first model. Then, every ``groups.pace`` rounds,
the model whose cluster means show most that its members are of several groups is parted along the direction
in which these means differ: it moves to one side of itself, and a further model begins at the other side.
Members find out by their loss on which side they are. Once all models are there, the same is done as often
again, but only for a model of which no sum was opened: nobody learns it any more. It takes no message and no
sum that a plain round does not have (docs/adr/0028).

When a model begins follows from the scenario, not from counts: members that lie about their choice cannot
hold one back, and none is replaced of which a sum was opened.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.methods import server_optimisers, task_groups
from securefl.protocol.round.server import group_sums
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey

MIXED = 1.4
"""Least ratio of a model that is parted again when all are there: rotated Fashion-MNIST has 1.0 to 1.3 where
all members are of one group, and 1.5 to 5.3 where they are of two."""


def models_at(plan: RunPlan, round_: int) -> int:
    """The number of models that parties choose among in a round: 1 in the warm-up, where nobody chooses."""
    groups = plan.scenario.groups
    if round_ < groups.warmup:
        return 1
    if not groups.warmup:
        return plan.models
    return min(plan.models, 2 + (round_ - groups.warmup) // groups.pace)


def parts_after(plan: RunPlan, round_: int) -> bool:
    """Whether a model may be parted at the end of a round."""
    groups = plan.scenario.groups
    since = round_ - (groups.warmup - 1)
    if plan.models == 1 or not groups.warmup or since < 0 or since % groups.pace:
        return False
    return since // groups.pace < 2 * (plan.models - 1)


def parted(
    plan: RunPlan,
    round_: int,
    models: F32,
    moments: F64,
    sums: Sequence[ClusterSum],
    drawn: Draw,
    totals: Mapping[ClusterKey, int] | None,
) -> tuple[F32, F64]:
    """All models ``(k d,)`` and the optimiser's moments, with a further one if it is time for it.

    Args:
        plan: of the run.
        round_: that ends.
        models: behind its step, f32 ``(k d,)``.
        moments: of the optimiser, f64 ``(s, k d)``.
        sums: opened in the round, of updates.
        drawn: its clusters, weights and seed.
        totals: members in each sum, where groups are hidden.
    """
    if not parts_after(plan, round_):
        return models, moments
    there = models_at(plan, round_)
    heard = {group_sums.group_of(drawn, opened.key) for opened in sums}
    # Until all are there it is the next one, whoever says that it has learned it already.
    further = there if there < plan.models else next((g for g in range(there) if g not in heard), None)
    spreads = _spreads(plan, sums, drawn, totals, there)
    if further is None or not spreads:
        return models, moments
    source = max(spreads, key=lambda group: (spreads[group].ratio, -group))
    if there == plan.models and spreads[source].ratio < MIXED:
        return models, moments
    tilt = spreads[source].length * spreads[source].direction
    models, moments = models.copy(), moments.copy()
    whole, at, to = models[_of(plan, source)].astype(np.float64), _of(plan, source), _of(plan, further)
    models[at], models[to] = whole + tilt, whole - tilt
    moments[:, at] = moments[:, to] = server_optimisers.first_moments(plan.optimiser, plan.length)
    return models, moments


def _spreads(
    plan: RunPlan,
    sums: Sequence[ClusterSum],
    drawn: Draw,
    totals: Mapping[ClusterKey, int] | None,
    there: int,
) -> Mapping[int, task_groups.Spread]:
    """Of the models that are there and of which two sums or more are not screened out."""
    left = group_sums.screened(plan, sums, drawn, totals)
    found = {}
    for group in range(there):
        own = group_sums.of_group(left, drawn, group)
        if len(own) >= 2:
            stack = group_sums.group_stack(plan, own, drawn, group, np.zeros(plan.broadcast), totals)
            found[group] = task_groups.spread(stack.means, stack.survivors)
    return found


def _of(plan: RunPlan, group: int) -> slice:
    return slice(group * plan.length, (group + 1) * plan.length)
