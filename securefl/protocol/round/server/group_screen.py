"""Sums of task groups that are too long among those of all models (docs/adr/0028).

A group has few sums of its own. Where more than half of these hold a liar, no rule on them alone finds the
others; the sums of all groups together are mostly honest, and their lengths can be compared across models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from securefl.methods.robust import lengths
from securefl.protocol.round.server.group_sums import group_of, group_stack, of_group
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey


def screened(
    plan: RunPlan, sums: Sequence[ClusterSum], drawn: Draw, totals: Mapping[ClusterKey, int] | None
) -> list[ClusterSum]:
    """The sums whose means are at most ``groups.screen`` times as long as the median over all models'.

    A group whose shortest mean is longer than that median is measured by its shortest, so that a model on
    which everybody still moves far is not left without sums; but never more than ``groups.screen`` squared
    times as long as the median: liars that are in all sums of a group would else have their way with it. Its
    model then stays as it is.

    Args:
        plan: of the run.
        sums: opened in the round, of updates.
        drawn: its clusters, weights and seed.
        totals: members in each sum, where groups are hidden.

    Returns:
        All of them, in their order, where the scenario has no screen.
    """
    factor = plan.scenario.groups.screen
    if factor is None or not sums:
        return list(sums)
    nothing = np.zeros(plan.broadcast)
    long: dict[ClusterKey, float] = {}
    shortest: dict[int, float] = {}
    for group in sorted({group_of(drawn, opened.key) for opened in sums}):
        own = of_group(sums, drawn, group)
        found = lengths(group_stack(plan, own, drawn, group, nothing, totals).means)
        long |= {opened.key: length for opened, length in zip(own, found.tolist(), strict=True)}
        shortest[group] = float(found.min())
    usual = float(np.median(list(long.values())))
    most = {group: factor * max(usual, min(least, factor * usual)) for group, least in shortest.items()}
    return [opened for opened in sums if long[opened.key] <= most[group_of(drawn, opened.key)]]
