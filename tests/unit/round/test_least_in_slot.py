"""Slots of hidden groups and rounds of open ones: how many there have to be, and who says so."""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import msgspec

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.protocol.messages.rounds import SEATS, SlotCounts
from securefl.protocol.round.party.phases import CountsReleased
from securefl.protocol.round.server.opening import requested_instances
from securefl.protocol.round.server.phases import Releasing
from securefl.protocol.round.shared.groups import draw_inside_groups
from securefl.protocol.round.shared.plan import published_limits
from securefl.protocol.round.shared.slots import FIRST_SLOT, draw_seat, least_in_slot
from tests.simulation.world import World, scenario
from tests.unit.round.recorded import Recorded, refused
from tests.unit.round.samples import plan_of

HIDDEN = {
    "size": "4",
    "clustering__atoms": "4",
    "weighting__mode": "ignore",
    "groups__count": "2",
    "groups__mode": "hidden",
    "threshold": "4",
    "min_survivors": "4",
}
LONE = PartyId("p00")


@lru_cache(maxsize=1)
def hidden() -> Recorded:
    """Two clusters of four; p00 is the only one in the second group."""
    return Recorded(World(scenario(8, **HIDDEN), length=4, choose=lambda party, _round: int(party == LONE)))


def test_the_largest_demand_counts_on_top_of_the_colluders() -> None:
    plan: Any = SimpleNamespace(scenario=SimpleNamespace(secure_sum=SimpleNamespace(colluders_per_cluster=2)))
    said = published_limits(scenario(6))
    limits = [msgspec.structs.replace(said, k_anonymity=k) for k in (2, 5, 3)]
    assert least_in_slot(plan, limits) == 7
    assert least_in_slot(plan, ()) == 3


def test_a_seat_is_any_of_its_slot() -> None:
    seats = [draw_seat(InsecureSeededEntropy(seed), 3) for seed in range(200)]
    assert all(3 * SEATS <= seat < 4 * SEATS for seat in seats)
    assert len(set(seats)) > min(SEATS, 200) // 3


def test_counts_of_another_round_are_refused() -> None:
    one = hidden().first(CountsReleased, SlotCounts)
    assert "sends group counts of round 1" in refused(one, place=one.event.place._replace(round=1))


def test_an_honest_server_waits_for_slots_that_may_be_opened_only() -> None:
    plan = hidden().world.plan
    releasing = [one.phase for one in hidden().taken if isinstance(one.phase, Releasing)]
    phase, counts = next((one, one.counts) for one in releasing if one.counts is not None)
    lone = next(one.cluster for one in counts if LONE in phase.view.assignment.clusters[0][one.cluster])
    due = set(requested_instances(plan, phase))
    assert due
    assert due <= phase.frozen.instances.keys()
    assert (FIRST_SLOT + 1, lone) in phase.frozen.instances
    assert (FIRST_SLOT + 1, lone) not in due
    assert (FIRST_SLOT + 1, 1 - lone) not in due


def test_a_round_in_groups_needs_as_many_as_a_certificate() -> None:
    made = scenario(
        12,
        size="3",
        threshold="3",
        min_survivors="3",
        server="active",
        groups__count="2",
        groups__choice_epsilon="2",
    )
    plan = plan_of(made)
    names = sorted(plan.roster.parties)
    few = {name: int(place >= 3) for place, name in enumerate(names[:6])}
    assert draw_inside_groups(plan, bytes(32), few.keys(), few).participants == ()
    more = {name: int(place >= 4) for place, name in enumerate(names[:8])}
    assert len(draw_inside_groups(plan, bytes(32), more.keys(), more).participants) >= 7
