"""Sentences on ``[groups]``; :mod:`securefl.protocol.round` has those on the choices of parties."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.base import header, text
from securefl.methods import clustering, feasibility
from securefl.scenario import Scenario


def on_groups(scenario: Scenario, _limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on task groups; none for one model."""
    groups, sums, size = scenario.groups, scenario.secure_sum, scenario.clustering.size
    if groups.count == 1:
        return
    if groups.warmup:
        last = groups.warmup + (groups.count - 2) * groups.pace
        late = "" if last < scenario.stop.rounds else "GROUPS COMPLETE AFTER THE RUN"
        splits = (
            f"then a split every {text.count(groups.pace, 'round')}, until round {last} has {groups.count}"
        )
        yield header.end(late, f"one model for {text.count(groups.warmup, 'round')}, {splits} groups")
    if not clustering.hides_groups(groups):
        waits = f"public in each round; clusters lie inside groups, and one of fewer than {size} waits"
        yield header.run(f"{groups.count} open groups", waits)
        return
    least, unheard = sums.colluders_per_cluster + sums.k_anonymity, feasibility.unheard(scenario)
    opened = f"counts by group, then sums of groups with {least} or more members"
    sizes = ", ".join(map(str, clustering.group_sizes(scenario)[:8]))
    lost = f"updates are lost, {unheard:.0%} on average, for groups of {sizes} parties"
    short = f"{groups.count} hidden groups lose {unheard:.0%} of updates"
    yield header.run(short, f"a cluster, the same in all rounds, opens {opened}; other {lost}")
