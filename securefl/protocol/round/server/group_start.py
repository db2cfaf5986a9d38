"""Start of task groups' models without an oracle: one model, split repeatedly (docs/adr/0028).

In the first ``groups.warmup`` rounds all parties train the first model. Then, every ``groups.pace`` rounds,
the model with the most divided cluster means is split. It moves to one side along their main difference, and
a new model starts at the other. Members select a side by their loss. Once all models exist, as many splits
follow, but only to replace a model without an opened sum, which no party trains. The scenario fixes the
times: members that lie about their choice cannot delay a model.
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

SPLIT_RATIO = 1.4
"""Least ratio of a model that is split once all exist. Rotated Fashion-MNIST: 1.0 to 1.3 for members of one
group, 1.5 to 5.3 for two.
"""


def model_count(plan: RunPlan, round_: int) -> int:
    """Return the number of models to choose from in a round; 1 in the warm-up."""
    groups = plan.scenario.groups
    if round_ < groups.warmup:
        return 1
    if not groups.warmup:
        return plan.models
    return min(plan.models, 2 + (round_ - groups.warmup) // groups.pace)


def is_split_due(plan: RunPlan, round_: int) -> bool:
    """Return True if a model may be split at the end of a round."""
    groups = plan.scenario.groups
    since = round_ - (groups.warmup - 1)
    if plan.models == 1 or not groups.warmup or since < 0 or since % groups.pace:
        return False
    return since // groups.pace < 2 * (plan.models - 1)


def split_models(
    plan: RunPlan,
    round_: int,
    models: F32,
    moments: F64,
    sums: Sequence[ClusterSum],
    drawn: Draw,
    totals: Mapping[ClusterKey, int] | None,
) -> tuple[F32, F64]:
    """Return all models f32 ``(k d,)`` and the optimiser's moments f64 ``(s, k d)``, one split if due.

    ``totals`` are the members in each sum of hidden groups.
    """
    if not is_split_due(plan, round_):
        return models, moments
    there = model_count(plan, round_)
    heard = {group_sums.group_of(drawn, opened.key) for opened in sums}
    # Until all models exist the next one starts, even if a party claims to train it.
    further = there if there < plan.models else next((g for g in range(there) if g not in heard), None)
    spreads = _spreads(plan, sums, drawn, totals, there)
    if further is None or not spreads:
        return models, moments
    source = max(spreads, key=lambda group: (spreads[group].ratio, -group))
    if there == plan.models and spreads[source].ratio < SPLIT_RATIO:
        return models, moments
    tilt = spreads[source].length * spreads[source].direction
    models, moments = models.copy(), moments.copy()
    whole, at, to = (
        models[_group_slice(plan, source)].astype(np.float64),
        _group_slice(plan, source),
        _group_slice(plan, further),
    )
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
    left = group_sums.screen_sums(plan, sums, drawn, totals)
    found = {}
    for group in range(there):
        own = group_sums.sums_of_group(left, drawn, group)
        if len(own) >= 2:
            stack = group_sums.group_stack(plan, own, drawn, group, np.zeros(plan.total_parameters), totals)
            found[group] = task_groups.spread(stack.means, stack.survivors)
    return found


def _group_slice(plan: RunPlan, group: int) -> slice:
    return slice(group * plan.length, (group + 1) * plan.length)
