"""Rounds with validated sums: whole federations with their dealer, in one process (ADR 0024)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from securefl.base.arrays import I64
from securefl.base.ids import DEALER, SERVER, PartyId
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.kernel.effects import Aborted, Finished, Send
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import Hello, Release
from securefl.protocol.messages.validation import Dealt
from securefl.protocol.round.dealer.machine import DealerMachine
from securefl.protocol.round.party.phases import Working
from securefl.protocol.round.party.upload import HONEST, Seams, UpdateId
from securefl.protocol.round.shared.reports import (
    InstanceLost,
    InstanceRetried,
    RoundDone,
    RunEffect,
    SumOpened,
    TriplesDealt,
    UpdatesValidated,
)
from securefl.protocol.secure_sum.validated.phases import Checking
from securefl.scenario.scenario import Scenario
from tests.crypten_threads import crypten_threads, end_abandoned
from tests.simulation.world import Op, World, scenario
from tests.tiers import covering, sampled

P0, P1, P2, P3 = (PartyId(f"p0{i}") for i in range(4))


@pytest.fixture(autouse=True)
def _alone() -> None:
    end_abandoned()


def validated(parties: int = 3, **overrides: str) -> Scenario:
    """Honest updates here have norm sqrt(8), below 0.9 x 4."""
    base = {
        "size": str(parties),
        "secure_sum__kind": '"crypten"',
        "secure_sum__validate": "{ norm = 4.0 }",
        "encoding__clip": "3.6",
        "weighting__mode": '"ignore"',
    }
    return scenario(parties, **base | overrides)


def oversized(factor: int) -> Seams:
    def scaled(values: I64, _occasion: UpdateId) -> I64:
        return values * factor

    return replace(HONEST, encoded=scaled)


def weighted(parties: int = 4, **overrides: str) -> Scenario:
    """64 samples or more weigh 1, and one weighs 1/64."""
    mode = {"weighting__mode": '"truncate"', "weighting__cap": "64"}
    return validated(parties, **mode | overrides)


def ended(world: World) -> World:
    """Everybody has come to an end, and no thread is left."""
    assert isinstance(world.server.outcome, Finished | Aborted)
    for node in world.nodes.values():
        assert node.outcome is not None or not node.alive, f"{node.name} hangs in {node.phase}"
        if not node.alive and isinstance(node.phase, Working):
            for instance in node.phase.instances.values():
                if isinstance(instance, Checking):
                    for computation in instance.running.values():
                        computation.close()  # with a process, the thread dies
    assert crypten_threads() == []
    return world


def opened(world: World) -> dict[int, tuple[tuple[PartyId, ...], int]]:
    """By round: whose sum was opened, and its first coordinate in units of the encoding."""
    sums = {r.round: r.opened for r in world.reports(SumOpened)}
    return {at: (s.survivors, round(int(from_ring(s.ring)[0]) / 2**16)) for at, s in sums.items()}


@pytest.mark.parametrize("server", ["curious", "active"])
def test_honest_updates_are_all_counted(server: str) -> None:
    threshold = "3" if server == "active" else "2"
    world = ended(World(validated(server=server, threshold=threshold, min_survivors=threshold)).run())
    assert opened(world) == {0: ((P0, P1, P2), 3)}
    (told,) = world.reports(UpdatesValidated)
    assert (told.accepted, told.rejected, told.projections) == ((P0, P1, P2), (), 64)
    (dealt,) = world.reports(TriplesDealt, DEALER)
    assert dealt.members == 3
    assert all(not node.rejects for node in world.nodes.values())


@pytest.mark.parametrize("server", sampled(["curious", "active"], ["active"]))
def test_an_oversized_update_is_left_out_and_its_party_helps_to_open_the_others(server: str) -> None:
    threshold = "3" if server == "active" else "2"
    plan = validated(4, rounds="3", server=server, threshold=threshold, min_survivors=threshold)
    world = ended(World(plan, seams={P2: oversized(10)}).run())
    assert opened(world) == dict.fromkeys(range(3), ((P0, P1, P3), 3))
    assert all(told.rejected == (P2,) for told in world.reports(UpdatesValidated))
    assert len(world.messages(Release, P2)) == 3
    assert all(P2 not in done.survivors for done in world.reports(RoundDone))


class TestDeclaredCounts:
    """A party of weight w is held to w C: one bound for all would let it have 1 / w times its say."""

    @staticmethod
    def light(party: PartyId) -> int:
        return 1 if party == P3 else 100

    def total(self, world: World) -> dict[tuple[PartyId, ...], int]:
        """Whose sum was opened, and its first coordinate in steps."""
        return {r.opened.survivors: int(from_ring(r.opened.ring)[0]) for r in world.reports(SumOpened)}

    def test_honest_updates_of_all_weights_are_counted(self) -> None:
        world = ended(World(weighted(), samples=self.light).run())
        assert self.total(world) == {(P0, P1, P2, P3): 3 * 2**16 + 2**10}

    def test_who_scales_a_small_weight_is_left_out_although_others_may_send_as_much(self) -> None:
        """60 / 64 of what a party of weight 1 sends: under masks it counts as almost a whole party."""
        world = ended(World(weighted(), samples=self.light, seams={P3: oversized(60)}).run())
        assert self.total(world) == {(P0, P1, P2): 3 * 2**16}
        assert [told.rejected for told in world.reports(UpdatesValidated)] == [(P3,)]
        plan = weighted(secure_sum__kind='"masking"', secure_sum__validate='"none"')
        masked = World(plan, samples=self.light, seams={P3: oversized(60)}).run()
        assert self.total(masked) == {(P0, P1, P2, P3): 3 * 2**16 + 60 * 2**10}

    def test_after_a_retry_members_have_other_numbers_and_the_same_bounds(self) -> None:
        ops = [Op("crash", P0, "PeerBox")]
        world = ended(World(weighted(), samples=self.light, seams={P3: oversized(60)}, ops=ops).run())
        assert world.reports(InstanceRetried)
        assert self.total(world) == {(P1, P2): 2 * 2**16}

    def test_a_sum_is_held_to_what_its_members_may_weigh_together(self) -> None:
        """Four of weight 1/64: a share of the sum that is off by one update of weight 1 / 4 is too much."""

        def spoilt(_event: object, effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
            return tuple(
                replace(effect, message=MaskedInput(vector=moved(effect.message.vector)))
                if isinstance(effect, Send) and isinstance(effect.message, MaskedInput)
                else effect
                for effect in effects
            )

        def moved(vector: bytes) -> bytes:
            return (np.frombuffer(vector, "<u8") + np.uint64(2**14)).astype("<u8").tobytes()

        honest = ended(World(weighted(), samples=lambda _party: 1).run())
        assert self.total(honest) == {(P0, P1, P2, P3): 4 * 2**10}
        world = World(weighted(), samples=lambda _party: 1)
        world.nodes[P2].seam = spoilt
        ended(world.run())
        assert self.total(world) == {}
        assert [report.reason for report in world.reports(InstanceLost)] == [
            "its norm is above that of all accepted updates together: a member sent a wrong share"
        ]


def test_masking_counts_it() -> None:
    """The same party in the same clusters under masks: the sum is spoiled."""
    world = World(scenario(4, size="4", encoding__clip="3.6"), seams={P2: oversized(10)}).run()
    assert opened(world) == {0: ((P0, P1, P2, P3), 13)}


@pytest.mark.parametrize(
    ("kind", "nth", "attempts"),
    [
        ("KeyAdvert", 0, 1),
        pytest.param("PeerBox", 0, 2, marks=pytest.mark.slow),
        ("Held", 0, 2),
        pytest.param("SketchNonce", 0, 1, marks=pytest.mark.slow),
        pytest.param("PeerBox", 3, 1, marks=pytest.mark.slow),
        pytest.param("PeerBox", 9, 1, marks=pytest.mark.slow),
        ("PeerBox", 176, 1),
        pytest.param("Verdict", 0, 1, marks=pytest.mark.slow),
        ("MaskedInput", 0, 1),
        pytest.param("Receipt", 0, 1, marks=pytest.mark.slow),
        ("Release", 0, 1),
    ],
)
def test_whoever_dies_there_is_an_end(kind: str, nth: int, attempts: int) -> None:
    """Before the receipts a new attempt without it; afterwards a lost sum. Never a second sketch."""
    world = ended(World(validated(4), ops=[Op("crash", P1, kind, nth)]).run())
    assert len(world.reports(InstanceRetried)) == attempts - 1
    early = attempts == 2 or kind == "KeyAdvert"
    assert opened(world) == ({0: ((P0, P2, P3), 3)} if early else {})
    assert bool(world.reports(InstanceLost)) == (not early)
    # The broker says that it died, so nobody waits for the end of a step, and nobody else is blamed.
    assert world.now < 10
    assert all(not {P0, P2, P3} & set(report.reason.split()) for report in world.reports(InstanceLost))


@pytest.mark.parametrize(
    ("kind", "act"),
    covering(
        ["DealRequest", "Dealt", "DealtTo", "HeldList", "SketchNonces", "Verdicts"], ["drop", "corrupt"]
    ),
)
def test_a_lost_message_costs_a_sum_at_most(kind: str, act: str) -> None:
    who = DEALER if kind == "Dealt" else SERVER
    world = ended(World(validated(3), ops=[Op(act, who, kind)]).run())  # type: ignore[arg-type]
    assert world.reports(InstanceLost)
    assert opened(world) == {}


def test_without_a_dealer_no_round_begins() -> None:
    world = World(validated(3))
    world.nodes[DEALER].alive = False
    ended(world.run())
    assert isinstance(world.server.outcome, Aborted)
    assert world.server.outcome.reason.startswith("dealer did not join within 60 s")
    assert world.messages(Hello) == []


def test_a_dealer_of_another_configuration_is_sent_home() -> None:
    world = World(validated(3))
    other = validated(3, secure_sum__validate="{ norm = 4.0, projections = 128 }")
    entropy = world.entropy_of(DEALER)
    world.nodes[DEALER].machine = DealerMachine(world.plan.run, other, world.plan.roster, entropy)
    ended(world.run())
    outcome = world.nodes[DEALER].outcome
    assert isinstance(outcome, Aborted)
    assert "differs from the server's" in outcome.reason
    assert isinstance(world.server.outcome, Aborted)


def test_a_dealer_that_is_slow_to_start_is_waited_for() -> None:
    ops = [Op("delay", DEALER, "JoinRun"), Op("drop", DEALER, "JoinRun", 1)]
    world = ended(World(validated(3), ops=ops).run())
    assert opened(world) == {0: ((P0, P1, P2), 3)}
    assert world.now > 3


def test_without_its_dealer_every_sum_is_lost_and_the_run_aborts() -> None:
    world = World(validated(3, rounds="5"), ops=[Op("crash", DEALER, "Dealt")])
    ended(world.run())
    reasons = {report.reason for report in world.reports(InstanceLost)}
    assert reasons == {"dealer sent no triples for 3 members"}
    assert isinstance(world.server.outcome, Aborted)


def test_a_dealer_that_died_costs_no_wait() -> None:
    """Its last will says so; nobody waits for the end of training any more."""
    world = ended(World(validated(3), ops=[Op("crash", DEALER, "Dealt")]).run())
    assert world.reports(InstanceLost)
    assert world.now < 60


def test_a_slow_dealer_costs_the_sum_and_what_comes_late_is_refused() -> None:
    """Its triples for one member come after the step has ended; the next round has its own."""
    plan = validated(3, rounds="2", deadlines__training="2")
    world = ended(World(plan, ops=[Op("delay", DEALER, "Dealt", 1)]).run())
    assert [report.reason for report in world.reports(InstanceLost)] == [
        "dealer sent no triples for 1 member"
    ]
    assert opened(world) == {1: ((P0, P1, P2), 3)}
    assert [(r.culprit, r.reason) for r in world.server.rejects] == [
        (DEALER, "sends Dealt for a cluster that does not exist")
    ]


def test_a_sum_that_is_longer_than_its_members_may_be_is_refused() -> None:
    """A refused member spoils its share of the sum: no MACs stop that, the length of what opens does."""

    def spoilt(_event: object, effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
        return tuple(
            replace(effect, message=MaskedInput(vector=bytes(len(effect.message.vector))))
            if isinstance(effect, Send) and isinstance(effect.message, MaskedInput)
            else effect
            for effect in effects
        )

    world = World(validated(4), seams={P2: oversized(10)})
    world.nodes[P2].seam = spoilt
    ended(world.run())
    assert opened(world) == {}
    (lost,) = world.reports(InstanceLost)
    assert (
        lost.reason == "its norm is above that of all accepted updates together: a member sent a wrong share"
    )


def test_the_release_of_a_refused_member_is_waited_for() -> None:
    """It has answered in time and holds shares of the others: it is not among those that are late."""
    ops = [Op("delay", P2, "Release")]
    world = ended(World(validated(4), seams={P2: oversized(10)}, ops=ops).run())
    assert opened(world) == {0: ((P0, P1, P3), 3)}


def test_a_repeated_request_or_deal_changes_nothing() -> None:
    ops = [Op("duplicate", SERVER, "DealRequest"), Op("duplicate", DEALER, "Dealt")]
    world = ended(World(validated(3), ops=ops).run())
    assert opened(world) == {0: ((P0, P1, P2), 3)}
    assert len(world.messages(Dealt)) == 3


def test_delayed_messages_arrive_in_another_order() -> None:
    ops = [Op("delay", name, "PeerBox", nth) for name in (P0, P1) for nth in (0, 3, 4, 11)]
    world = ended(World(validated(3), ops=ops).run())
    assert opened(world) == {0: ((P0, P1, P2), 3)}
