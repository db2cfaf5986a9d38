"""What the leakage ledger stops, step 8 of the protocol: each attack with it and without.

The server asks for everything that it could get. Without the ledger linear algebra on the opened sums gives
the victim's update exactly, in the steps of its encoding; with it the sums stay closed that would do so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest

from securefl.base.arrays import F32
from securefl.base.ids import SERVER, PartyId
from securefl.methods.feasibility import limits
from securefl.protocol.kernel.effects import Aborted, Finished
from securefl.protocol.round.party import release as party_release
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import PartyContext, Working
from securefl.protocol.round.server import machine as server
from securefl.protocol.round.server.phases import CollectingHellos
from securefl.protocol.round.shared.leakage import LedgerQuestion
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import RoundDone, SatOut, SharesReleased, SumOpened, SumsWithheld
from securefl.scenario.scenario import Scenario
from tests.seen import patch_seen
from tests.simulation.ledger_attacks import (
    ALONE,
    ATTACKS,
    BY_COLLUSION,
    BY_DROPOUT,
    ONE_COLLUDER,
    P05_IS_SILENT,
    PAIRS,
    REPORT,
    Clusters,
    P,
    V,
    clusters_are,
    demanding_nothing,
    forgetful,
    greedy,
    small,
)
from tests.simulation.spy import Grasp, Spy, spying
from tests.simulation.world import Op, World


def distinct(name: PartyId, _round: int, params: F32) -> F32:
    return np.asarray(params + np.float32(1 + int(name[1:])) / 64, dtype=np.float32)


def truth(name: PartyId, length: int = 8) -> list[int]:
    return [(1 + int(name[1:])) * 1024] * length


def attacked(
    made: Scenario,
    clusters: Clusters,
    *patches: AbstractContextManager[object],
    ops: Collection[Op] = (),
    prepare: Callable[[World], None] = lambda _world: None,
) -> tuple[World, Spy]:
    with ExitStack() as stack:
        for one in (clusters_are(clusters), *patches):
            stack.enter_context(one)
        spy = stack.enter_context(spying())
        world = World(made, train=distinct, ops=ops)
        prepare(world)
        world.run()
    return world, spy


def attempted(
    name: str, kind: str, *patches: AbstractContextManager[object], guarded: bool
) -> tuple[World, Spy]:
    """One of the attacks, where the parties forgo nothing or what it needs."""
    attack = ATTACKS[name]
    made = attack.scenario(kind, guarded=guarded)
    under_way = attack.under_way(guarded=guarded)
    return attacked(made, attack.clusters, under_way, *patches, ops=attack.ops, prepare=attack.prepare)


def assert_recovered(spy: Spy, victim: PartyId = V, colluders: Collection[PartyId] = ()) -> None:
    found = Grasp(spy, colluders).recovered(victim)
    assert found is not None
    assert found.tolist() == truth(victim)


def assert_hidden(spy: Spy, colluders: Collection[PartyId] = ()) -> None:
    grasp = Grasp(spy, colluders)
    assert not grasp.alone()
    assert not grasp.both_kinds()
    assert grasp.recovered(V) is None


def released(world: World) -> set[PartyId]:
    return {name for name in world.parties if world.reports(SharesReleased, name)}


def refusals(world: World, reason: str) -> set[PartyId]:
    return {
        name
        for name in world.parties
        if any(r.culprit == SERVER and reason in r.reason for r in world.nodes[name].rejects)
    }


def sat_out(world: World, reason: str) -> set[PartyId]:
    return {name for name in world.parties if any(reason in r.reason for r in world.reports(SatOut, name))}


CROSSED = "asks to open sums that exceed the leakage limits"
both = pytest.mark.parametrize("kind", ["curious", "active"])


class TestTheHonestServer:
    @both
    def test_opens_what_the_ledger_allows_and_says_so(self, kind: str) -> None:
        world, spy = attacked(small(kind), ALONE)
        assert_hidden(spy)
        (done,) = world.reports(RoundDone)
        assert done.opened == ((0, 0), (0, 1))
        assert done.lost == ((1, 0), (1, 1))
        assert set(done.survivors) == set(P[:5])
        (withheld,) = world.reports(SumsWithheld)
        assert (withheld.reclusterings, withheld.crossed) == ((1,), ((V,),))
        assert withheld.reason == "p00, its update follows from the sums"
        assert all(world.reports(SumsWithheld, name) == [withheld] for name in P[:5])
        assert not any(node.rejects for node in world.nodes.values())
        assert isinstance(world.server.outcome, Finished)

    @both
    def test_ends_rounds_cleanly_in_which_nothing_may_be_opened(self, kind: str) -> None:
        """A leverage below that of one sum is refused at load; here nobody looked."""
        with patch.object(limits, "check_leakage", lambda _scenario: None):
            made = small(kind, rounds="9", leakage__leverage="0.1")
            world, spy = attacked(made, ALONE)
        assert not released(world)
        assert not Grasp(spy).groups()
        assert len(world.reports(RoundDone)) == 3
        assert isinstance(world.server.outcome, Aborted)
        assert not any(node.rejects for node in world.nodes.values())

    def test_new_work_is_not_summed_twice(self) -> None:
        world, _ = attacked(small("curious", clustering__new_work="true"), ALONE)
        assert len(world.reports(SumOpened)) == 4


class TestTheVictimsVetoAlone:
    """The victim is not in the second opening, and the first one takes no share of its own."""

    @both
    def test_does_not_save_it(self, kind: str) -> None:
        world, spy = attempted("the victim's veto alone", kind, guarded=False)
        assert V not in released(world)
        assert_recovered(spy)

    @both
    def test_everybodys_does(self, kind: str) -> None:
        world, spy = attempted("the victim's veto alone", kind, guarded=True)
        assert refusals(world, f"{CROSSED}: p00, its update follows from the sums") == set(P[:5])
        assert not released(world)
        assert_hidden(spy)

    @both
    def test_reported_only_it_is_open(self, kind: str) -> None:
        _, spy = attacked(small(kind, **REPORT), ALONE)
        assert_recovered(spy)


class TestPairs:
    @both
    def test_three_pairs_of_three(self, kind: str) -> None:
        world, spy = attacked(small(kind, 3), PAIRS)
        assert [done.opened for done in world.reports(RoundDone)] == [((0, 0), (0, 1), (1, 0), (1, 1))]
        assert_hidden(spy)
        world, spy = attempted("pairs", kind, guarded=True)
        assert not released(world)
        assert_hidden(spy)

    @both
    def test_reported_only_all_three_are_open(self, kind: str) -> None:
        _, spy = attempted("pairs", kind, guarded=False)
        for name in P[:3]:
            assert_recovered(spy, name)


class TestDropouts:
    @both
    def test_what_counts_is_who_survived(self, kind: str) -> None:
        made = small(kind, parties=6, size="3")
        world, spy = attacked(made, BY_DROPOUT, ops=P05_IS_SILENT)
        assert {s.opened.reclustering for s in world.reports(SumOpened)} == {0}
        assert_hidden(spy)
        world, spy = attacked(made, BY_DROPOUT)
        assert {s.opened.reclustering for s in world.reports(SumOpened)} == {0, 1}
        assert_hidden(spy)

    @both
    def test_a_ledger_of_plans_lets_the_difference_out(self, kind: str) -> None:
        _, spy = attempted("dropout", kind, guarded=False)
        assert_recovered(spy)


class TestColludersDifference:
    @both
    def test_one_colluder_and_a_difference_of_two_parties(self, kind: str) -> None:
        world, spy = attacked(small(kind, parties=8, **ONE_COLLUDER), BY_COLLUSION)
        (withheld,) = world.reports(SumsWithheld)
        assert withheld.crossed == ((V, P[4]),)
        assert_hidden(spy, [P[4]])

    @both
    def test_without_the_ledger_it_is_open_to_that_colluder(self, kind: str) -> None:
        _, spy = attempted("collusion", kind, guarded=False)
        assert_recovered(spy, V, [P[4]])
        assert Grasp(spy).recovered(V) is None


class TestRetries:
    """A second sum of the same updates without the victim, once the first is released."""

    @both
    def test_are_refused_by_whoever_has_released(self, kind: str) -> None:
        world, spy = attempted("retry", kind, guarded=True)
        assert refusals(world, "to a party in phase idle") == set(P[:6])
        assert_hidden(spy)

    @both
    def test_are_refused_by_the_ledger_too(self, kind: str) -> None:
        """Whether or not the server says that it opened the first."""
        world, spy = attempted("retry", kind, forgetful(), guarded=True)
        assert sat_out(world, "exceed the leakage limits: p00, its update follows from the sums") == set(
            P[1:6]
        )
        assert_hidden(spy)

    @both
    def test_work_where_neither_looks(self, kind: str) -> None:
        _, spy = attempted("retry", kind, guarded=False)
        assert_recovered(spy)


class TestTwoSurvivorSets:
    """Half of each cluster is told that the victim survived, half that it did not."""

    def test_make_no_certificate(self) -> None:
        world, spy = attempted("two survivor sets", "active", guarded=True)
        assert not released(world)
        assert_hidden(spy)

    def test_open_the_victim_where_none_is_needed(self) -> None:
        """As everywhere with a curious server: each party's ledger is about the set that it was told."""
        _, spy = attempted("two survivor sets", "active", guarded=False)
        assert_recovered(spy)


class TestMissingFromOneReclusteringOnly:
    """p07 accuses p00 in the first reclustering, whose sum goes on without both; the freeze counts them."""

    @both
    def test_is_counted_nowhere(self, kind: str) -> None:
        world, spy = attempted("missing from one reclustering", kind, guarded=True)
        assert refusals(world, "lists survivors without masks") >= {P[1], P[2], P[8]}
        assert_hidden(spy, [P[7]])

    @both
    def test_its_update_is_the_difference_of_two_totals(self, kind: str) -> None:
        _, spy = attempted("missing from one reclustering", kind, guarded=False)
        assert_recovered(spy, V, [P[7]])


class TestOwnConfiguration:
    """``report`` has to stand in a party's own scenario. Here all but the victim's say so."""

    @staticmethod
    def _world(*patches: AbstractContextManager[object]) -> tuple[World, Spy]:
        def own(world: World, name: PartyId) -> None:
            vetoing = replace(world.plan, scenario=small("curious"))
            machine = PartyMachine(PartyContext(vetoing, name, 10, world.entropy_of(name)))
            world.nodes[name].machine = machine

        with ExitStack() as stack:
            for one in patches:
                stack.enter_context(one)
            spy = stack.enter_context(spying())
            world = World(small("curious", **REPORT), train=distinct)
            for name in (V, P[1], P[2]):
                own(world, name)
            world.run()
        return world, spy

    ONE_DIGEST = patch.object(RunPlan, "config_digest", lambda _self: bytes(32))

    def test_another_scenario_than_the_servers_is_no_part_of_the_run(self) -> None:
        world, spy = self._world()
        assert isinstance(world.nodes[V].outcome, Aborted)
        assert not any(name == V for _, name in spy.masked)

    def test_a_server_that_passes_it_off_as_the_same_is_refused(self) -> None:
        def any_hello(_ctx: object, phase: CollectingHellos, event: Any, message: Any) -> Any:
            return replace(phase, hellos={**phase.hellos, event.sender: (message, event.signed)})

        world, spy = self._world(
            clusters_are(ALONE), self.ONE_DIGEST, patch_seen(server, "on_hello", any_hello)
        )
        assert V in refusals(world, "with other leakage limits than it configured")
        assert not any(name == V for _, name in spy.masked)

    def test_limits_that_others_said_for_it_do_not_bind_it(self) -> None:
        """Were hellos forged that all say "report", also in its own name, it would still not release."""
        real = party_release._ledger_question
        careless = msgspec.structs.replace(World(small("curious")).plan.published_limits, leakage="report")

        def forged(ctx: PartyContext, phase: Working, survivors: frozenset[PartyId]) -> LedgerQuestion:
            said = {p: msgspec.structs.replace(h, limits=careless) for p, h in phase.hellos.items()}
            return real(ctx, replace(phase, hellos=said), survivors)

        world, _ = attacked(
            small("curious"), ALONE, greedy(), patch.object(party_release, "_ledger_question", forged)
        )
        assert refusals(world, CROSSED) == {V}
        assert V not in released(world)


class TestCertifiedPrimes:
    """Where the rank vouches for nothing, primes that nobody knew before the certificate decide again."""

    @pytest.mark.parametrize("certain", [True, False])
    def test_are_asked_only_then(self, certain: bool) -> None:
        seeds: list[bytes | None] = []
        real = LedgerQuestion.answer

        def answer(question: LedgerQuestion, seed: bytes | None = None) -> Any:
            seeds.append(seed)
            return replace(real(question, seed), certain=certain)

        with patch.object(LedgerQuestion, "answer", answer):
            world, _ = attacked(small("active"), ALONE)
        assert len(released(world)) == 5
        assert len([seed for seed in seeds if seed is not None]) == (0 if certain else 5)

    def test_another_answer_stops_the_release(self) -> None:
        real = LedgerQuestion.answer

        def answer(question: LedgerQuestion, seed: bytes | None = None) -> Any:
            asked = demanding_nothing(question) if seed is None else question
            return replace(real(asked, seed), certain=False)

        with patch.object(LedgerQuestion, "answer", answer):
            world, spy = attacked(small("active"), ALONE)
        assert refusals(world, "would evade the leakage limits") == set(P[:5])
        assert_hidden(spy)
