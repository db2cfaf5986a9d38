"""The server's step between counts and slots of hidden groups (docs/adr/0026)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from securefl.methods.clustering import COUNTS, hides_groups
from securefl.protocol.kernel import Place, Report, Send
from securefl.protocol.messages import SlotCounts
from securefl.protocol.round.party.draw import Effects
from securefl.protocol.round.server.phases import Releasing, ServerContext
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey, StepReached
from securefl.protocol.round.shared.slots import counted, least_in_slot, opened_slots


def is_count(plan: RunPlan, key: ClusterKey) -> bool:
    """Whether an instance sums counts of hidden groups."""
    return hides_groups(plan.scenario.groups) and key[0] == COUNTS


def due_now(plan: RunPlan, phase: Releasing) -> Collection[ClusterKey]:
    """The instances whose shares are being released."""
    instances = phase.frozen.instances
    if not hides_groups(plan.scenario.groups):
        return instances.keys()
    if phase.counts is None:
        return {key for key in instances if key[0] == COUNTS}
    return opened_slots(phase.counts) & instances.keys()


def ask_slots(
    ctx: ServerContext, phase: Releasing, sums: Sequence[ClusterSum], now: float
) -> tuple[Releasing, Effects]:
    """Tell every cluster whose counts were opened which seats are taken; its members know what to release.

    A cluster whose counts are impossible is told nothing: an honest member would refuse them.
    """
    plan, round_ = ctx.plan, phase.standing.round
    limits = (phase.view.limits[party] for party in phase.frozen.survivors)
    found = counted(round_, sums, least_in_slot(plan, limits))
    asking = replace(
        phase,
        released=frozenset(),
        shares={},
        deadline=now + plan.scenario.deadlines.release,
        counts=found,
    )
    survivors = {one.cluster: one.survivors for one in sums}
    tell: Effects = tuple(
        Send(party, Place(round_), SlotCounts(seats=one.seats))
        for one in found
        if one.slots
        for party in survivors[one.cluster]
    )
    return asking, (*map(Report, found), Report(StepReached(round_, "release")), *tell)
