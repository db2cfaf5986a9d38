"""Slots and starts of task groups as arithmetic, and hellos that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.methods.encoding.ring import from_ring, to_ring
from securefl.protocol.messages.rounds import SEATS
from securefl.protocol.round.party.upload import EncodedUpdate
from securefl.protocol.round.shared.groups import draw_inside_groups, is_valid_group, likeliest_group
from securefl.protocol.round.shared.slots import (
    counts_at,
    counts_in,
    draw_seat,
    open_slots,
    seats_in,
    slot_uploads,
)
from tests.simulation.world import World, scenario
from tests.unit.round.samples import plan_of

OPEN = {"groups__count": "3", "size": "2"}
HIDDEN = {
    "groups__count": "3",
    "groups__mode": "hidden",
    "threshold": "4",
    "min_survivors": "4",
    "size": "4",
    "clustering__atoms": "4",
    "weighting__mode": "ignore",
}


@given(st.lists(st.integers(0, 2), min_size=1, max_size=9), st.integers(1, 4))
def test_slots_of_honest_members_open_where_enough_are_in_them(groups: list[int], least: int) -> None:
    plan = plan_of(scenario(12, **HIDDEN))
    update = EncodedUpdate(to_ring(np.full(plan.length, 5, dtype=np.int64), plan.limits.ring_bits), 0)
    drawn = [draw_seat(InsecureSeededEntropy(at), group) for at, group in enumerate(groups)]
    made = [slot_uploads(plan, update, seat) for seat in drawn]
    totals = [np.add.reduce([one[place].ring for one in made]) for place in range(4)]
    counts = counts_in(totals[0])
    assert counts == tuple(groups.count(group) for group in range(3))
    assert seats_in(totals[0], len(groups)) == tuple(sorted(drawn))
    assert counts_at(sorted(drawn), 3) == counts
    assert open_slots(counts, len(groups), least) == tuple(g for g in range(3) if groups.count(g) >= least)
    for group in range(3):
        assert set(from_ring(totals[1 + group]).tolist()) == {5 * groups.count(group)}


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param({0: 4, 1: -1, 2: 1}, id="negative"),
        pytest.param({0: 3}, id="too few"),
        pytest.param({0: 2**31 - 1, 1: 2**31 - 1, 2: 6}, id="as many only modulo the ring"),
    ],
)
def test_seats_that_cannot_be_are_none(taken: dict[int, int]) -> None:
    values = np.zeros(3 * SEATS, dtype=np.int64)
    for seat, members in taken.items():
        values[seat] = members
    assert seats_in(to_ring(values, 32), 4) == ()


@given(
    st.lists(st.integers(0, 3 * 8 - 1), min_size=1, max_size=6, unique=True),
    st.integers(1, 3),
    st.dictionaries(st.integers(0, 3 * 8 - 1), st.integers(-3, 4), max_size=8),
)
def test_whoever_leaves_all_others_their_seats_lifts_a_count_by_its_own_at_most(
    honest: list[int], liars: int, lies: dict[int, int]
) -> None:
    """ADR 0026; seats of three slots, eight of each, no two honest members on one."""
    values = np.zeros(3 * SEATS, dtype=np.int64)
    places = [SEATS * (at // 8) + at % 8 for at in range(3 * 8)]
    for at in honest:
        values[places[at]] += 1
    for at, lie in lies.items():
        values[places[at]] += lie
    # What the liars put in besides makes the sum right: whatever else they try closes the cluster.
    values[places[0]] += len(honest) + liars - values.sum()
    seats = seats_in(to_ring(values, 64), len(honest) + liars)
    if not {places[at] for at in honest} <= set(seats):
        return
    for count, true in zip(counts_at(seats, 3), counts_at([places[at] for at in honest], 3), strict=True):
        assert count <= true + liars


@pytest.mark.parametrize("counts", [(3, -1, 2), (3, 2, 0), (2, 1, 0)])
def test_counts_that_cannot_be_open_nothing(counts: tuple[int, ...]) -> None:
    assert open_slots(counts, 4, 2) == ()


def test_the_least_loss_among_finite_ones() -> None:
    assert likeliest_group(np.array([np.nan, 2.0, 2.0])) == 1
    assert likeliest_group(np.array([np.inf, np.nan])) is None


def test_hellos_state_a_group_where_groups_are_open_and_only_there() -> None:
    opened, hidden, plain = (plan_of(scenario(12, **kind)) for kind in (OPEN, HIDDEN, {}))
    assert [is_valid_group(opened, group) for group in (-1, 0, 2, 3)] == [False, True, True, False]
    assert [is_valid_group(hidden, group) for group in (-1, 0)] == [True, False]
    assert [is_valid_group(plain, group) for group in (-1, 0)] == [True, False]


def test_parties_refuse_an_announcement_with_a_group_that_there_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A liar names group 3 of 3, and a server lets it pass."""
    world = World(scenario(6, **OPEN), choose=lambda party, _round: 3 if party == "p05" else 0)
    monkeypatch.setattr("securefl.protocol.round.server.gather.is_valid_group", lambda _plan, _group: True)
    world.run()
    for name in world.parties[:-1]:
        assert any("p05 in group 3" in reject.reason for reject in world.nodes[name].rejects)


def test_the_server_refuses_it_too_and_goes_on() -> None:
    world = World(scenario(6, **OPEN), choose=lambda party, _round: 3 if party == "p05" else 0).run()
    assert any("group 3" in reject.reason for reject in world.server.rejects)
    assert world.models[0].size == 3 * 8


def test_groups_keep_to_themselves_and_to_cluster_sizes() -> None:
    plan = plan_of(scenario(12, **OPEN))
    groups = {name: int(name[1:]) % 3 if name != "p00" else 1 for name in plan.roster.parties}
    drawn = draw_inside_groups(plan, bytes(32), groups.keys(), groups)
    assert [len(members) for members in drawn.clusters[0]] == [3, 3, 2, 2, 2]
    assert drawn.tasks == (0, 1, 1, 2, 2)
    for members, task in zip(drawn.clusters[0], drawn.tasks, strict=True):
        assert {groups[party] for party in members} == {task}
    other = draw_inside_groups(plan, bytes(31) + b"\1", groups.keys(), groups)
    assert other.clusters != drawn.clusters
    nobody = draw_inside_groups(
        plan, bytes(32), groups.keys(), dict.fromkeys(groups, 0) | {PartyId("p00"): 1}
    )
    assert "p00" not in nobody.participants
