from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.clustering.sizes import cluster_sizes
from securefl.methods.server_optimisers.averaged import NO_STATE, AveragedState
from securefl.protocol.kernel.effects import Aborted, Finished, Send
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.rounds import Hello
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.shared import plan as plans
from securefl.protocol.round.shared.reports import (
    ClustersDrawn,
    Effects,
    QuorumAwaited,
    RoundDone,
    RoundSkipped,
    RunEffect,
    SatOut,
)
from tests.simulation.world import Op, World, scenario
from tests.tiers import examples
from tests.unit.round.samples import plan_of


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_wanted_is_the_largest_number_whose_clusters_stay_small(data: st.DataObject) -> None:
    parties = data.draw(st.integers(3, 24))
    size = data.draw(st.integers(2, min(6, parties)))
    threshold = data.draw(st.integers(2, size))
    server = data.draw(st.sampled_from(["curious", "active"]))
    try:
        plan = plan_of(
            scenario(
                parties,
                size=str(size),
                threshold=str(threshold),
                min_survivors=str(threshold),
                server=server,
            )
        )
    except ConfigError:
        reject()
    for present in range(parties + 1):
        wanted = plan.participants_of(present)
        feasible = [
            n
            for n in range(plan.min_participants, present + 1)
            if max(cluster_sizes(n, size)) <= plan.limits.max_cluster_size
        ]
        assert wanted == max(feasible, default=0)
        if wanted and server == "active":
            # Two groups that could open share an honest member, in every cluster that can come about.
            assert 2 * threshold - max(cluster_sizes(wanted, size)) > 0
            assert wanted >= (plan.limits.quorum or 0)


def test_a_count_or_fraction_is_an_upper_bound() -> None:
    plan = plan_of(scenario(20, participation__count="9"))
    assert [plan.participants_of(n) for n in (20, 9, 8, 3, 2)] == [9, 9, 8, 3, 0]


def test_by_hand() -> None:
    """With t = 3 against an active server a cluster has at most 5 members: 7 parties make none of 4."""
    plan = plan_of(scenario(12, size="4", threshold="3", min_survivors="3", server="active"))
    assert plan.limits.max_cluster_size == 5
    assert plan.limits.quorum == 7
    assert [plan.participants_of(n) for n in (12, 11, 10, 9, 8, 7, 6)] == [12, 10, 10, 9, 8, 0, 0]


@pytest.mark.parametrize(("absent", "taking_part"), [(0, 12), (1, 10), (2, 10), (3, 9), (4, 8)])
def test_surplus_parties_sit_the_round_out(absent: int, taking_part: int) -> None:
    made = scenario(12, size="4", threshold="3", min_survivors="3", server="active")
    world = World(made, ops=[Op("drop", f"p{i:02d}", "Hello") for i in range(absent)]).run()
    (drawn,) = world.reports(ClustersDrawn)
    taking = [party for cluster in drawn.clusters[0] for party in cluster]
    assert len(taking) == len(set(taking)) == taking_part
    assert max(len(cluster) for cluster in drawn.clusters[0]) <= 5
    for name in world.parties[absent:]:
        assert [d.clusters for d in world.reports(ClustersDrawn, name)] == [drawn.clusters]
        sat_out = [r.reason for r in world.reports(SatOut, name)]
        assert sat_out == ([] if name in taking else ["not drawn for this round"])
    assert not any(node.rejects for node in world.nodes.values())


def test_a_round_keeps_to_the_odds_of_shared_noise_when_a_party_is_absent() -> None:
    """12 parties, q = 3, f = 2: of 11, six are drawn, and no cluster of 11 holds all colluders."""
    made = scenario(
        12,
        size="6",
        threshold="3",
        min_survivors="5",
        server="curious",
        secure_sum__colluders="3",
        secure_sum__colluders_per_cluster="2",
        encoding__clip="1.0",
        encoding__scale_bits="9",
        privacy__unit="party",
        privacy__placement="threshold",
        privacy__multiplier="1.0",
        privacy__delta="0.01",
    )
    world = World(made, ops=[Op("drop", "p00", "Hello")], length=8).run()
    (drawn,) = world.reports(ClustersDrawn)
    assert [len(cluster) for cluster in drawn.clusters[0]] == [6]
    assert len(drawn.resting) == 5
    for name in world.parties[1:]:
        assert [d.clusters for d in world.reports(ClustersDrawn, name)] == [drawn.clusters]
    few = World(made, ops=[Op("drop", f"p{i:02d}", "Hello") for i in range(5)], length=8).run()
    (skipped,) = few.reports(RoundSkipped)
    assert "8 are needed, and clusters of 6 members at most" in skipped.reason


def test_too_few_at_the_start_end_the_run_with_a_reason() -> None:
    made = scenario(12, size="4", threshold="3", min_survivors="3", server="active")
    world = World(made, ops=[Op("drop", f"p{i:02d}", "JoinRun", n) for i in range(5) for n in range(2)]).run()
    assert isinstance(world.server.outcome, Aborted)
    assert "7 are needed" in world.server.outcome.reason
    assert all(isinstance(world.nodes[n].outcome, Aborted) for n in world.parties)


def test_too_few_in_one_round_cost_that_round_only() -> None:
    made = scenario(12, size="4", threshold="3", min_survivors="3", server="active", rounds="3")
    world = World(made, ops=[Op("drop", f"p{i:02d}", "Hello", 1) for i in range(6)]).run()
    assert isinstance(world.server.outcome, Finished)
    (skipped,) = world.reports(RoundSkipped)
    assert skipped.round == 1
    assert "7 are needed" in skipped.reason
    assert [len(done.survivors) for done in world.reports(RoundDone)] == [12, 0, 12]


def test_too_few_in_every_round_end_the_run() -> None:
    made = scenario(12, size="4", threshold="3", min_survivors="3", server="active", rounds="9")
    ops = [Op("drop", f"p{i:02d}", "Hello", n) for i in range(6) for n in range(9)]
    world = World(made, ops=ops).run()
    assert world.server.outcome == Aborted("too few parties for a round in 600 s online (deadlines.quorum)")
    assert len(world.reports(RoundSkipped)) == 5, "each waits twice as long as the one before"
    waited = [report.seconds for report in world.reports(QuorumAwaited)]
    assert waited == [20.0 * wait for wait in range(1, 31)]
    assert world.now > 600


def test_limits_that_are_not_those_of_the_signed_configuration_are_refused() -> None:
    """One party that demanded the impossible would veto every release, and the server be blamed."""

    def demand(_event: Event[AnyMessage], effects: tuple[RunEffect, ...]) -> Effects:
        return tuple(
            replace(e, message=msgspec.structs.replace(e.message, limits=harsh))
            if isinstance(e, Send) and isinstance(e.message, Hello)
            else e
            for e in effects
        )

    world = World(scenario(6))
    harsh = msgspec.structs.replace(world.plan.published_limits, min_survivors=5)
    world.nodes[PartyId("p03")].seam = demand
    world.run()
    assert [r.culprit for r in world.server.rejects] == ["p03"]
    assert "other leakage limits" in world.server.rejects[0].reason
    (done,) = world.reports(RoundDone)
    assert set(done.survivors) == set(world.parties) - {"p03"}


def test_parties_sign_which_coordinates_are_averaged() -> None:
    """A server that averages other coordinates than its parties finds no party to join."""
    plan = plan_of(scenario())
    states = [NO_STATE, *(AveragedState(((a, b),), ((b - 1, b),)) for a, b in ((0, 1), (0, 2), (1, 2)))]
    states.append(AveragedState(((0, 2),), ()))
    assert len({replace(plan, state=state).config_digest() for state in states}) == len(states)
    assert replace(plan, state=NO_STATE).config_digest() == plan.config_digest()
    masks = [replace(plan, state=state).averaged.tolist() for state in states[:3]]
    assert masks == [[False] * 4, [True, False, False, False], [True, True, False, False]]


def test_who_has_another_file_of_own_rules_has_another_configuration() -> None:
    plan = plan_of(scenario())
    digests = {
        replace(plan, limits=replace(plan.limits, own_rules=own)).config_digest()
        for own in (b"", bytes(32), b"\x01" * 32)
    }
    assert len(digests) == 3
    assert plan.config_digest() in digests, "built-in rules have no file that counts"


def test_a_run_computes_the_digests_of_its_scenario_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were computed again for each draw of each party: a quarter of a round in memory."""
    counted = {name: Mock(wraps=getattr(plans, name)) for name in ("drawn_digest", "scenario_digest")}
    for name, function in counted.items():
        monkeypatch.setattr(plans, name, function)
    world = World(scenario(6, rounds="3")).run()
    assert len(world.reports(ClustersDrawn)) == 3
    assert [function.call_count for function in counted.values()] == [1, 1]
