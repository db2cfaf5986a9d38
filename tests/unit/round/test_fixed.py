"""Rounds with fixed clusters: absent parties, clusters without enough members, and too few of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import fixed_assignment, fixed_seed
from securefl.protocol.kernel.effects import Aborted, Finished
from securefl.protocol.round.shared.draw import shortage
from securefl.protocol.round.shared.reports import ClustersDrawn, RoundDone, RoundSkipped, SatOut, SumOpened
from tests.simulation.world import Op, World, scenario
from tests.unit.misbehaviour.lab import Lab

FIXED = {"clustering__fixed": "true", "leakage__mode": "report"}


def without(parties: Iterable[str], *rounds: int) -> list[Op]:
    """The hellos of these parties get lost in these rounds."""
    return [Op("drop", name, "Hello", round_) for name in parties for round_ in rounds]


def planned(world: World) -> tuple[tuple[PartyId, ...], ...]:
    """The fixed clusters of a run in which everybody is there."""
    seed = fixed_seed(world.plan.run, world.plan.draw_digest)
    (row,) = fixed_assignment(seed, world.parties, world.parties, 3, 2).clusters
    return row


def clusters_of(world: World) -> list[tuple[tuple[PartyId, ...], ...]]:
    return [drawn.clusters[0] for drawn in world.reports(ClustersDrawn)]


@pytest.mark.parametrize("server", ["curious", "active"])
def test_the_clusters_stay_and_the_absent_are_missing_in_them(server: str) -> None:
    config = scenario(9, rounds="4", server=server, **FIXED)
    lab = Lab(config, {})
    whole = planned(lab)
    first, second, third = whole
    lab.ops = without([first[0]], 1) + without([second[0], second[1]], 2)
    lab.run()
    assert clusters_of(lab) == [whole, (first[1:], second, third), (first, third), whole]
    for name in {*lab.parties} - {first[0], *second[:2]}:
        assert [d.clusters[0] for d in lab.reports(ClustersDrawn, name)] == clusters_of(lab)
    assert [len(done.survivors) for done in lab.reports(RoundDone)] == [9, 8, 6, 9]
    (out,) = lab.reports(SatOut, second[2])
    assert (out.round, out.reason) == (2, "too few of its fixed cluster are there")
    for round_ in range(4):
        lab.assert_sums_right(round_)
    assert len(lab.reports(SumOpened)) == 3 + 3 + 2 + 3


def test_another_configuration_has_other_clusters() -> None:
    assert len({planned(World(scenario(9, rounds=rounds, **FIXED))) for rounds in "123"}) > 1


def test_rounds_without_a_cluster_are_skipped_and_the_run_goes_on() -> None:
    config = scenario(6, rounds="3", **FIXED)
    world = World(config)
    first, second = planned(world)
    world.ops = without([*first[:2], *second[:2]], 1)
    world.run()
    (skipped,) = world.reports(RoundSkipped)
    assert skipped.round == 1
    assert skipped.reason == "2 parties are there; 4 are needed: more than half of the roster"
    assert [len(done.survivors) for done in world.reports(RoundDone)] == [6, 0, 6]
    assert isinstance(world.server.outcome, Finished)


def test_too_few_at_the_start_end_the_run() -> None:
    config = scenario(6, **FIXED)
    world = World(config)
    first, second = planned(world)
    world.ops = [Op("drop", name, "JoinRun", n) for name in (*first[:2], *second[:2]) for n in range(2)]
    world.run()
    assert isinstance(world.server.outcome, Aborted)
    assert "2 of 6 parties joined" in world.server.outcome.reason
    assert "4 are needed" in world.server.outcome.reason


def test_an_active_server_needs_a_quorum_in_whole_enough_clusters() -> None:
    config = scenario(9, server="active", **FIXED)
    world = World(config)
    plan = world.plan
    assert plan.limits.quorum == 5
    first, second, third = planned(world)
    assert shortage(plan, {*first, *second[:2]}) is None
    assert shortage(plan, {*first, second[0], third[0]}) == (
        "3 of them are in fixed clusters with 2 members or more, and 5 are needed"
    )
