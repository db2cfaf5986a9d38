"""What the leakage ledger stops, step 8 of the protocol: each attack with it and without.

The server asks for everything that it could get. Without the ledger linear algebra on the opened sums gives
the victim's update exactly, in the steps of its encoding; with it the sums stay closed that would do so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest

from securefl.arrays import F32
from securefl.clustering.assignment import Assignment
from securefl.clustering.leakage.admission import Admission
from securefl.config import limits
from securefl.config.scenario import Scenario
from securefl.ids import SERVER, PartyId
from securefl.kernel.effects import Aborted, Finished, Send
from securefl.kernel.events import Received
from securefl.messages.masking import BoxList, Complaint
from securefl.messages.rounds import Freeze
from securefl.rounds import draw, party, party_release, server, server_freeze
from securefl.rounds.leakage import Question
from securefl.rounds.party import PartyMachine
from securefl.rounds.party_phases import Outside, PartyContext, PartyPhase, Working
from securefl.rounds.plan import Plan
from securefl.rounds.reports import RoundDone, SharesReleased, SumOpened, SumsWithheld
from securefl.rounds.server_phases import Greeting
from tests.simulation.spy import Grasp, Spy, spying
from tests.simulation.world import Op, World, scenario

P = [PartyId(f"p{i:02d}") for i in range(8)]
V = P[0]
"""The victim."""
Clusters = Sequence[Sequence[Sequence[int]]]
ALONE: Clusters = [[[0, 1, 2], [3, 4]], [[1, 2], [0, 3, 4]]]
"""p00 is what the first sum has and the third has not; nobody else is determined."""
PAIRS: Clusters = [[[0, 1], [2, 3, 4]], [[1, 2], [0, 3, 4]], [[0, 2], [1, 3, 4]]]
"""x0 + x1, x1 + x2 and x0 + x2."""
BY_DROPOUT: Clusters = [[[0, 1, 2], [3, 4, 5]], [[1, 2, 5], [0, 3, 4]]]
"""Harmless, unless p05 drops out."""
BY_COLLUSION: Clusters = [[[0, 1, 2, 3], [4, 5, 6, 7]], [[1, 2, 3, 4], [0, 5, 6, 7]]]
"""The difference of two sums is x0 - x4."""
HALVES: Clusters = [[[0, 1, 2], [3, 4, 5]]]
FOURS: Clusters = [[[0, 1, 2, 3], [4, 5, 6, 7]]]
TWICE_FOUR: Clusters = [[[0, 1, 2, 7], [3, 4, 5, 6]], [[0, 3, 5, 7], [1, 2, 4, 6]]]

REPORT: dict[str, Any] = {"leakage__mode": "report"}


def distinct(name: PartyId, _round: int, params: F32) -> F32:
    return np.asarray(params + np.float32(1 + int(name[1:])) / 64, dtype=np.float32)


def truth(name: PartyId, length: int = 8) -> list[int]:
    return [(1 + int(name[1:])) * 1024] * length


@contextmanager
def clusters_are(clusters: Clusters) -> Iterator[None]:
    """The draw comes out so."""
    rows = tuple(tuple(tuple(P[k] for k in members) for members in row) for row in clusters)
    assignment = Assignment(tuple(sorted(p for members in rows[0] for p in members)), rows)
    with patch.object(draw, "draw_assignment", lambda *_args: assignment):
        yield


def demanding_nothing(question: Question) -> Question:
    return replace(question, limits={})


def greedy() -> AbstractContextManager[object]:
    """A server that asks for all sums."""

    def asked(*fields: Any) -> Question:
        return demanding_nothing(Question(*fields))

    return patch.object(server_freeze, "Question", asked)


def asking(change: Callable[[PartyContext, Question], Question]) -> AbstractContextManager[object]:
    """Parties that ask their ledger something else."""
    real = party_release._question

    def changed(ctx: PartyContext, phase: Working, survivors: frozenset[PartyId]) -> Question:
        return change(ctx, real(ctx, phase, survivors))

    return patch.object(party_release, "_question", changed)


def attacked(
    made: Scenario,
    clusters: Clusters,
    *patches: AbstractContextManager[object],
    ops: Collection[Op] = (),
    seam: Any = None,
    party_seam: tuple[PartyId, Any] | None = None,
) -> tuple[World, Spy]:
    with ExitStack() as stack:
        for one in (clusters_are(clusters), *patches):
            stack.enter_context(one)
        spy = stack.enter_context(spying())
        world = World(made, train=distinct, ops=ops)
        world.server.seam = seam
        if party_seam is not None:
            world.nodes[party_seam[0]].seam = party_seam[1](world)
        world.run()
    return world, spy


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


CROSSED = "asks for sums that cross limits of leakage"
both = pytest.mark.parametrize("kind", ["curious", "active"])


def small(kind: str, reclusterings: int = 2, parties: int = 5, **more: str) -> Scenario:
    size = more.pop("size", "2")
    return scenario(parties, size=size, server=kind, reclusterings=str(reclusterings), **more)


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

    @staticmethod
    def _lonely(ctx: PartyContext, question: Question) -> Question:
        return question if ctx.me == V else demanding_nothing(question)

    @both
    def test_does_not_save_it(self, kind: str) -> None:
        heads = patch.object(Admission, "head", lambda _self: bytes(32))
        world, spy = attacked(small(kind), ALONE, greedy(), asking(self._lonely), heads)
        assert V not in released(world)
        assert_recovered(spy)

    @both
    def test_everybodys_does(self, kind: str) -> None:
        world, spy = attacked(small(kind), ALONE, greedy())
        assert refusals(world, f"{CROSSED}: p00, its update follows from the sums") == set(P[:5])
        assert not released(world)
        assert_hidden(spy)

    @both
    def test_reported_only_it_is_open(self, kind: str) -> None:
        _, spy = attacked(small(kind, **REPORT), ALONE)
        assert_recovered(spy)


class TestPairs:
    def test_three_pairs_of_three(self) -> None:
        world, spy = attacked(small("curious", 3), PAIRS)
        assert [done.opened for done in world.reports(RoundDone)] == [((0, 0), (0, 1), (1, 0), (1, 1))]
        assert_hidden(spy)
        _, spy = attacked(small("curious", 3), PAIRS, greedy())
        assert_hidden(spy)

    def test_reported_only_all_three_are_open(self) -> None:
        _, spy = attacked(small("curious", 3, **REPORT), PAIRS)
        for name in P[:3]:
            assert_recovered(spy, name)


class TestDropouts:
    SILENT = (Op("drop", P[5], "MaskedInput", 0), Op("drop", P[5], "MaskedInput", 1))

    @staticmethod
    def _by_the_plan(_ctx: object, question: Question) -> Question:
        return replace(question, survivors=frozenset(question.assignment.participants))

    @both
    def test_what_counts_is_who_survived(self, kind: str) -> None:
        made = small(kind, parties=6, size="3")
        world, spy = attacked(made, BY_DROPOUT, ops=self.SILENT)
        assert {s.opened.reclustering for s in world.reports(SumOpened)} == {0}
        assert_hidden(spy)
        world, spy = attacked(made, BY_DROPOUT)
        assert {s.opened.reclustering for s in world.reports(SumOpened)} == {0, 1}
        assert_hidden(spy)

    @both
    def test_a_ledger_of_plans_lets_the_difference_out(self, kind: str) -> None:
        made = small(kind, parties=6, size="3")
        heads = patch.object(Admission, "head", lambda _self: bytes(32))
        _, spy = attacked(made, BY_DROPOUT, greedy(), asking(self._by_the_plan), heads, ops=self.SILENT)
        assert_recovered(spy)


ONE_COLLUDER: dict[str, Any] = {
    "size": "4",
    "threshold": "3",
    "min_survivors": "3",
    "secure_sum__colluders": "1",
    "secure_sum__colluders_per_cluster": "1",
}


class TestColludersDifference:
    def test_one_colluder_and_a_difference_of_two_parties(self) -> None:
        world, spy = attacked(small("curious", parties=8, **ONE_COLLUDER), BY_COLLUSION)
        (withheld,) = world.reports(SumsWithheld)
        assert withheld.crossed == ((V, P[4]),)
        assert_hidden(spy, [P[4]])

    def test_without_the_ledger_it_is_open_to_that_colluder(self) -> None:
        made = small("curious", parties=8, **ONE_COLLUDER, **REPORT)
        _, spy = attacked(made, BY_COLLUSION)
        assert_recovered(spy, V, [P[4]])
        assert Grasp(spy).recovered(V) is None


class TestRetries:
    """A second sum of the same updates without the victim, once the first is released."""

    @staticmethod
    def _again(_event: object, effects: Any) -> Any:
        out = []
        for effect in effects:
            out.append(effect)
            if isinstance(effect, Send) and isinstance(effect.message, Freeze):
                fewer = tuple(name for name in effect.message.survivors if name != V)
                out.append(replace(effect, message=msgspec.structs.replace(effect.message, survivors=fewer)))
        return tuple(out)

    @staticmethod
    def _forgetful() -> AbstractContextManager[object]:
        """Parties that would answer a second freeze; all that they remember is what counts as opened."""
        real = party_release.on_freeze

        def on_freeze(*args: Any) -> tuple[PartyPhase, Any]:
            phase, effects = real(*args)
            return (replace(args[1], past=phase.past) if isinstance(phase, Outside) else phase), effects

        return patch.object(party, "on_freeze", on_freeze)

    def test_are_refused_by_whoever_has_released(self) -> None:
        world, spy = attacked(small("curious", 1, 6, size="3"), HALVES, seam=self._again)
        assert refusals(world, "to a party that is outside") == set(P[:6])
        assert_hidden(spy)

    def test_are_refused_by_the_ledger_too(self) -> None:
        """Whether or not the server says that it opened the first."""
        made = small("curious", 1, 6, size="3")
        world, spy = attacked(made, HALVES, self._forgetful(), seam=self._again)
        assert refusals(world, f"{CROSSED}: p00, its update follows from the sums") == set(P[1:6])
        assert_hidden(spy)

    def test_work_where_neither_looks(self) -> None:
        made = small("curious", 1, 6, size="3", **REPORT)
        _, spy = attacked(made, HALVES, self._forgetful(), seam=self._again)
        assert_recovered(spy)


class TestTwoSurvivorSets:
    """Half of each cluster is told that the victim survived, half that it did not."""

    @staticmethod
    def _split(_event: object, effects: Any) -> Any:
        def told(effect: Any) -> Any:
            if not (isinstance(effect, Send) and isinstance(effect.message, Freeze)):
                return effect
            if effect.to in {V, P[1], P[4], P[5]}:
                return effect
            fewer = tuple(name for name in effect.message.survivors if name != V)
            return replace(effect, message=msgspec.structs.replace(effect.message, survivors=fewer))

        return tuple(map(told, effects))

    def test_make_no_certificate(self) -> None:
        made = small("active", 1, 8, size="4", threshold="3", min_survivors="3")
        world, spy = attacked(made, FOURS, seam=self._split)
        assert not released(world)
        assert_hidden(spy)

    def test_open_the_victim_where_none_is_needed(self) -> None:
        """As everywhere with a curious server: each party's ledger is about the set that it was told."""
        _, spy = attacked(small("curious", 1, 8, size="4"), FOURS, seam=self._split)
        assert_recovered(spy)


class TestMissingFromOneReclusteringOnly:
    """p07 accuses p00 in the first reclustering, whose sum goes on without both; the freeze counts them."""

    @staticmethod
    def _accusing(world: World) -> Any:
        def seam(event: Any, effects: Any) -> Any:
            if isinstance(event, Received) and isinstance(event.message, BoxList):
                if event.place.reclustering or event.place.attempt:
                    return effects
                accusation = Send(SERVER, event.place, Complaint(accused=V))
                return (*(e for e in effects if not isinstance(e, Send)), accusation)
            return effects

        del world
        return seam

    def _run(self, *patches: AbstractContextManager[object], **more: str) -> tuple[World, Spy]:
        counted = patch.object(server_freeze, "survivor_set", lambda *_args: frozenset(P))
        made = small("curious", 2, 8, size="4", threshold="2", min_survivors="2", **more)
        return attacked(made, TWICE_FOUR, counted, *patches, party_seam=(P[7], self._accusing))

    def test_is_counted_nowhere(self) -> None:
        world, spy = self._run()
        assert refusals(world, "counts members that share no masks") >= {P[1], P[2]}
        assert_hidden(spy, [P[7]])

    def test_its_update_is_the_difference_of_two_totals(self) -> None:
        _, spy = self._run(patch.object(party_release, "_check_receipts", lambda *_args: None), **REPORT)
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

    ONE_DIGEST = patch.object(Plan, "config_digest", lambda _self: bytes(32))

    def test_another_scenario_than_the_servers_is_no_part_of_the_run(self) -> None:
        world, spy = self._world()
        assert isinstance(world.nodes[V].outcome, Aborted)
        assert not any(name == V for _, name in spy.masked)

    def test_a_server_that_passes_it_off_as_the_same_is_refused(self) -> None:
        def any_hello(
            _ctx: object, phase: Greeting, sender: PartyId, _place: object, m: Any, f: bytes
        ) -> Any:
            return replace(phase, hellos={**phase.hellos, sender: (m, f)})

        world, spy = self._world(
            clusters_are(ALONE), self.ONE_DIGEST, patch.object(server, "on_hello", any_hello)
        )
        assert V in refusals(world, "with other limits than its configuration has")
        assert not any(name == V for _, name in spy.masked)

    def test_limits_that_others_said_for_it_do_not_bind_it(self) -> None:
        """Were hellos forged that all say "report", also in its own name, it would still not release."""
        real = party_release._question
        careless = msgspec.structs.replace(World(small("curious")).plan.published_limits, leakage="report")

        def forged(ctx: PartyContext, phase: Working, survivors: frozenset[PartyId]) -> Question:
            said = {p: msgspec.structs.replace(h, limits=careless) for p, h in phase.hellos.items()}
            return real(ctx, replace(phase, hellos=said), survivors)

        world, _ = attacked(
            small("curious"), ALONE, greedy(), patch.object(party_release, "_question", forged)
        )
        assert refusals(world, CROSSED) == {V}
        assert V not in released(world)


class TestCertifiedPrimes:
    """Where the rank vouches for nothing, primes that nobody knew before the certificate decide again."""

    @pytest.mark.parametrize("certain", [True, False])
    def test_are_asked_only_then(self, certain: bool) -> None:
        seeds: list[bytes | None] = []
        real = Question.answer

        def answer(question: Question, seed: bytes | None = None) -> Any:
            seeds.append(seed)
            return replace(real(question, seed), certain=certain)

        with patch.object(Question, "answer", answer):
            world, _ = attacked(small("active"), ALONE)
        assert len(released(world)) == 5
        assert len([seed for seed in seeds if seed is not None]) == (0 if certain else 5)

    def test_another_answer_stops_the_release(self) -> None:
        real = Question.answer

        def answer(question: Question, seed: bytes | None = None) -> Any:
            asked = demanding_nothing(question) if seed is None else question
            return replace(real(asked, seed), certain=False)

        with patch.object(Question, "answer", answer):
            world, spy = attacked(small("active"), ALONE)
        assert refusals(world, "chosen to mislead the leakage ledger") == set(P[:5])
        assert_hidden(spy)
