"""When the server stops waiting: hints, true and forged, a broker away, large models, absent parties."""

from __future__ import annotations

import math
from typing import Any

import pytest

from securefl.base.ids import DEALER, SERVER, PartyId
from securefl.protocol.kernel.effects import Aborted, AwaitSent, Finished, Send, WakeAt
from securefl.protocol.kernel.events import (
    AllSent,
    DeadlinePassed,
    Offline,
    Online,
    Place,
    PresenceHint,
    Received,
)
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.control import Here, Pause, RollCall
from securefl.protocol.messages.rounds import Hello, Invite, ModelAnnounce
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party.machine import INPUT_NOT_COUNTED, PAUSE_SECONDS, PartyMachine, patience
from securefl.protocol.round.party.phases import HelloSent
from securefl.protocol.round.server.phases import CollectingHellos, ServerPhase
from securefl.protocol.round.server.waiting import (
    GRACE_SECONDS,
    RECONNECT_SECONDS,
    Pace,
    least_answers,
    step_end,
)
from securefl.protocol.round.shared.allowance import allowed_seconds, vector_bytes
from securefl.protocol.round.shared.online import OTHERS_RETURN, OnlineClock
from securefl.protocol.round.shared.presence import FIRST
from securefl.protocol.round.shared.reports import (
    Effects,
    ModelSent,
    QuorumAwaited,
    RoundDone,
    RoundSkipped,
    SatOut,
)
from tests.simulation.test_validated import validated
from tests.simulation.world import Op, World, scenario
from tests.unit.round.samples import plan_of

A, B, C, D, E = (PartyId(f"p{index:02d}") for index in range(5))
THREE = Pace(10.0, {A: 1.0, B: 2.0, C: 4.0}, 14.0)


class TestDue:
    """Three of five have answered, after 1, 2 and 4 seconds; it is 10 + 4."""

    def test_without_hints_it_is_the_deadline(self) -> None:
        assert step_end(100.0, {D, E}, {D}, {}, THREE, 2) == 100.0

    def test_nobody_missing_nothing_to_shorten(self) -> None:
        assert step_end(100.0, set(), {D}, {E: 0.0}, THREE, 2) == 100.0

    def test_too_few_answers_shorten_nothing(self) -> None:
        assert step_end(100.0, {D, E}, {D}, {E: 0.0}, THREE, 4) == 100.0

    def test_twice_what_is_usual(self) -> None:
        assert step_end(100.0, {D, E}, {D}, {E: 0.0}, THREE, 3) == 10 + 2 * 4

    def test_never_below_twice_the_median(self) -> None:
        slow = Pace(10.0, {A: 1.0, B: 8.0, C: 8.0}, 18.0)
        assert step_end(100.0, {D}, {D}, {}, slow, 1) == 10 + 2 * 8

    def test_a_moment_after_the_last_answer(self) -> None:
        last = Pace(10.0, {A: 1.0, B: 1.0, C: 50.0}, 60.0)
        assert step_end(100.0, {D}, {D}, {}, last, 2) == 60 + GRACE_SECONDS

    def test_who_is_gone_has_time_to_come_back(self) -> None:
        assert step_end(100.0, {D}, set(), {D: 30.0}, THREE, 3) == 30 + RECONNECT_SECONDS

    def test_a_hint_never_lengthens(self) -> None:
        assert step_end(15.0, {D}, {D}, {}, THREE, 3) == 15.0

    def test_a_step_of_its_own_beginning(self) -> None:
        assert step_end(100.0, {D}, {D}, {}, THREE, 3, began=30.0) == 30 + 2 * 4


@pytest.mark.parametrize(
    ("fields", "asked", "least"),
    [
        ({}, 12, 7),
        ({}, 7, 4),
        ({"secure_sum__colluders": "8"}, 12, 9),
        ({"size": "4", "threshold": "3", "min_survivors": "3", "server": "active"}, 12, 7),
        (
            {"size": "4", "threshold": "3", "min_survivors": "3", "server": "active"}
            | {"secure_sum__colluders": "4"},
            12,
            9,
        ),
    ],
)
def test_how_many_must_have_answered(fields: dict[str, str], asked: int, least: int) -> None:
    assert least_answers(plan_of(scenario(12, **fields)), asked) == least


class Forging:
    """A server whose broker says, before each thing that happens, that these parties are gone."""

    def __init__(self, world: World, parties: list[PartyId]) -> None:
        self._machine: Any = world.server.machine
        self._parties = parties
        world.server.machine = self

    def start(self, now: float) -> tuple[ServerPhase, Effects]:
        phase, effects = self._machine.start(now)
        return self._forge(phase, now, effects)

    def step(self, phase: ServerPhase, event: Event[AnyMessage]) -> tuple[ServerPhase, Effects]:
        phase, effects = self._machine.step(phase, event)
        return self._forge(phase, event.now, effects)

    def _forge(self, phase: ServerPhase, now: float, effects: Effects) -> tuple[ServerPhase, Effects]:
        for party in self._parties:
            phase, more = self._machine.step(phase, PresenceHint(now, party))
            effects += more
        return phase, effects


ACTIVE = {"size": "4", "threshold": "3", "min_survivors": "3", "server": "active"}


@pytest.mark.parametrize("fields", [{}, ACTIVE], ids=["curious", "active"])
@pytest.mark.parametrize("colluders", ["0", "4"])
def test_forged_words_of_the_broker_cost_nobody_anything(fields: dict[str, str], colluders: str) -> None:
    """Eight honest parties are said to be gone all the time; four colluders answer everything first."""
    world = World(scenario(12, rounds="3", secure_sum__colluders=colluders, **fields))
    quick, honest = world.parties[:4], world.parties[4:]
    world.working = dict.fromkeys(quick, 0.001) | {name: 2.0 + i / 10 for i, name in enumerate(honest)}
    Forging(world, honest)
    world.run()
    assert isinstance(world.server.outcome, Finished)
    assert [len(done.survivors) for done in world.reports(RoundDone)] == [12, 12, 12]


def test_a_dead_party_still_costs_nobody_the_deadline() -> None:
    world = World(scenario(6, rounds="3"), ops=[Op("crash", "p05", "ShareBoxes")]).run()
    assert [len(done.survivors) for done in world.reports(RoundDone)] == [5, 5, 5]
    assert world.now < 60, "twice what the others take, not 300 s"


def test_a_party_that_the_server_went_on_without_says_so_in_its_own_log() -> None:
    world = World(scenario(6, rounds="2"), ops=[Op("drop", "p05", "MaskedInput", 0)]).run()
    assert [len(done.survivors) for done in world.reports(RoundDone)] == [5, 6]
    assert world.reports(SatOut, PartyId("p05")) == [SatOut(0, INPUT_NOT_COUNTED)]
    assert not any(world.reports(SatOut, name) for name in world.parties[:5])


def offline_for(world: World, at: float, seconds: float, *, kept: bool = False) -> None:
    """Take the broker from the server at a time, and give it back."""
    world._schedule(at, SERVER, Offline(at))
    world._schedule(at + seconds, SERVER, Online(at + seconds, 2, kept))


def test_deadlines_stand_still_while_the_server_is_offline() -> None:
    """All hellos of round 0 are lost with the broker. Time without it is not counted, time with it is."""
    lost = [Op("drop", f"p{i:02d}", "Hello", 0) for i in range(6)]
    world = World(scenario(6, rounds="2", deadlines__join="5"), ops=lost)
    offline_for(world, 10.0, 600.0)
    world.run()
    (awaited,) = world.reports(QuorumAwaited)
    assert (awaited.round, awaited.seconds) == (0, 20.0)
    assert world.now >= 600 + 20
    assert isinstance(world.server.outcome, Finished)
    assert [len(done.survivors) for done in world.reports(RoundDone)] == [0, 6]


def test_nothing_wakes_an_offline_server_and_what_is_complete_goes_on() -> None:
    world = World(scenario(6))
    woken: list[WakeAt] = []

    def watch(node: Any, _before: object, _event: object, after: Any, effects: Effects) -> None:
        if (
            node.name == SERVER
            and getattr(after, "standing", None)
            and after.standing.session.clock.offline_since is not None
        ):
            woken.extend(effect for effect in effects if isinstance(effect, WakeAt))

    world.observers.append(watch)
    offline_for(world, 0.5, 100.0)
    world.run()
    assert woken
    assert {effect.when for effect in woken} == {None}
    assert [len(done.survivors) for done in world.reports(RoundDone)] == [6]


class TestOnlineClock:
    def test_it_goes_with_the_other_clock_until_the_broker_is_lost(self) -> None:
        clock = OnlineClock()
        assert clock.read(5.0) == 5.0
        assert clock.convert_alarms((WakeAt(7.0), WakeAt(None), WakeAt(math.inf))) == (
            WakeAt(7.0),
            WakeAt(None),
            WakeAt(None),
        )

    def test_it_stands_and_goes_on_when_the_others_can_be_back_too(self) -> None:
        clock = OnlineClock().stop(10.0)
        assert clock.read(99.0) == 10.0
        assert clock.convert_alarms((WakeAt(12.0),)) == (WakeAt(None),)
        assert clock.stop(50.0) == clock
        clock = clock.start(100.0)
        assert clock.read(100.0) == clock.read(100.0 + OTHERS_RETURN) == 10.0
        assert clock.read(100.0 + OTHERS_RETURN + 1.0) == 11.0
        assert clock.convert_alarms((WakeAt(12.0),)) == (WakeAt(100.0 + OTHERS_RETURN + 2.0),)
        assert clock.start(200.0) == clock

    def test_whoever_is_woken_is_woken_late_enough(self) -> None:
        clock = OnlineClock().stop(0.1).start(1e6 + 0.3).stop(1e6 + 7.7).start(2e6 + 0.123)
        for tenth in range(1, 200):
            (woken,) = clock.convert_alarms((WakeAt(8.0 + tenth / 10),))
            assert isinstance(woken, WakeAt)
            assert woken.when is not None
            assert clock.read(woken.when) >= 8.0 + tenth / 10

    def test_a_broker_that_breaks_connections_all_the_time_does_not_stop_it(self) -> None:
        """Cut off every five seconds, for one: it had stood still for the others' return, always."""
        clock, now = OnlineClock(), 0.0
        for _ in range(200):
            clock = clock.stop(now + 5.0).start(now + 6.0)
            now += 6.0
        assert clock.read(now) >= 1200 / 3
        # One that breaks now and then is waited for each time.
        once = OnlineClock().stop(100.0).start(101.0)
        assert once.read(107.0) == 100.0
        again = once.stop(120.0).start(121.0)
        assert again.read(127.0) == once.read(120.0) == 113.0

    def test_a_broker_that_is_lost_again_at_once_is_waited_for_again(self) -> None:
        """The others notice that it is back within six seconds of each outage that they could notice."""
        clock = OnlineClock().stop(10.0).start(40.0).stop(40.2)
        long = clock.start(70.2)
        assert long.read(76.2) == 10.0
        assert long.read(77.2) == 11.0
        # A short one takes nothing of the time that they still had.
        short = clock.start(40.7)
        assert short.read(40.7 + 5.8) == 10.0
        assert short.read(40.7 + 6.8) == 11.0


def greeting(made: Any, length: int = 4) -> tuple[Any, CollectingHellos, Effects]:
    """The server as it has just invited to round 0, at second 0.002 or so."""
    world = World(made, length=length)
    invited: list[tuple[CollectingHellos, Effects]] = []

    def watch(node: Any, _before: object, _event: object, after: object, effects: Effects) -> None:
        if isinstance(after, CollectingHellos):
            invited.append((after, effects))

    world.observers.append(watch)
    world.run()
    return (world.server.machine, *invited[0])


def test_hellos_have_their_time_from_when_the_model_has_left() -> None:
    machine, phase, effects = greeting(scenario(6))
    assert AwaitSent(0, 0) in effects
    assert phase.deadline >= 600.0, "deadlines.quorum, should the broker never acknowledge a frame"
    assert [effect for effect in effects if isinstance(effect, WakeAt)][-1] == WakeAt(phase.deadline)
    same, _ = machine.step(phase, DeadlinePassed(500.0))
    assert type(same) is CollectingHellos
    over, _ = machine.step(phase, DeadlinePassed(phase.deadline))
    assert over.waits == 1
    other, _ = machine.step(phase, AllSent(500.0, 7, 0))
    assert other.deadline == phase.deadline, "it was about another round"
    _, effects = machine.step(phase, AllSent(500.0, 0, 0))
    assert effects[-1] == WakeAt(520.0)
    assert [e.item for e in effects if hasattr(e, "item")] == [ModelSent(0, 0)]


def test_a_large_model_has_the_time_that_it_needs() -> None:
    """94 MB at 1 MB/s: the parties could not have said hello within 20 s."""
    plan = plan_of(scenario(6), 23_500_000)
    assert vector_bytes(plan, "hello") == 94_000_000
    assert allowed_seconds(plan, "hello") == 94.0
    assert allowed_seconds(plan_of(scenario(6), 2_350_000), "hello") == 20.0
    assert allowed_seconds(plan, "training") == 300.0
    assert allowed_seconds(plan_of(scenario(6, deadlines__training="5"), 23_500_000), "training") == 94.0
    machine, phase, _ = greeting(scenario(6, deadlines__hello="1"), 1_000_000)
    _, effects = machine.step(phase, AllSent(500.0, 0, 0))
    assert effects[-1] == WakeAt(500.0 + 4.0)


def test_vectors_of_all_sums_and_members_count() -> None:
    twice = plan_of(scenario(6, reclusterings="2", leakage__mode="report"), 1000)
    assert vector_bytes(twice, "training") == 2 * 4000
    assert vector_bytes(twice, "shares") == 0
    crypten = plan_of(scenario(6, secure_sum__kind="crypten"), 1000)
    members = crypten.limits.max_cluster_size
    assert vector_bytes(crypten, "training") == 1000 * crypten.limits.ring_bits // 8 * (2 * members - 1)


def test_a_party_waits_for_as_long_as_a_server_may_wait_for_others() -> None:
    made = scenario(6, deadlines__quorum="5000")
    assert patience(made) >= patience(scenario(6, deadlines__quorum="1")) + 2 * 4999
    assert PartyMachine(World(made, length=4).nodes[A].machine._ctx)._patience == patience(made)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [A, DEALER])
def test_who_is_asked_to_wait_does_so_when_the_broker_is_started_again_too(name: PartyId) -> None:
    made = validated(3) if name == DEALER else scenario(6)
    machine = World(made, length=4).nodes[name].machine
    phase, _ = machine.start(0.0)
    pause: AnyMessage = Pause(reason="an upgrade")

    def waking(effects: Effects) -> float | None:
        return [one.when for one in effects if isinstance(one, WakeAt)][-1]

    phase, effects = machine.step(phase, Received(10.0, SERVER, Place(-1), pause))
    assert waking(effects) == 10.0 + PAUSE_SECONDS
    phase, effects = machine.step(phase, Offline(20.0))
    assert waking(effects) is None
    phase, effects = machine.step(phase, Online(30.0, 2, kept=True))
    assert waking(effects) == 30.0 + PAUSE_SECONDS
    phase, effects = machine.step(phase, Received(40.0, SERVER, Place(-1), RollCall()))
    assert waking(effects) == 40.0 + patience(made)
    _, effects = machine.step(phase, Online(50.0, 3, kept=True))
    assert waking(effects) == 50.0 + patience(made)


def test_too_few_parties_are_waited_for_without_a_new_round_each_time() -> None:
    """Half of the parties are away for the hellos of two rounds; then all are back."""
    away = [Op("drop", f"p{i:02d}", "Hello", n) for i in range(6) for n in range(2)]
    made = scenario(12, size="4", threshold="3", min_survivors="3", server="active", rounds="4")
    world = World(made, ops=away).run()
    assert [(r.round, r.seconds) for r in world.reports(QuorumAwaited)] == [(0, 20.0), (1, 40.0), (1, 60.0)]
    assert [r.round for r in world.reports(RoundSkipped)] == [0, 1]
    assert [len(done.survivors) for done in world.reports(RoundDone)] == [0, 0, 12, 12]
    assert isinstance(world.server.outcome, Finished)


def test_the_field_says_how_long() -> None:
    away = [Op("drop", f"p{i:02d}", "Hello", n) for i in range(6) for n in range(9)]
    made = scenario(12, **ACTIVE, rounds="9", deadlines__quorum="45")
    world = World(made, ops=away).run()
    assert world.server.outcome == Aborted("too few parties for a round in 45 s online (deadlines.quorum)")
    assert [r.seconds for r in world.reports(QuorumAwaited)] == [20.0, 40.0, 60.0]


def test_the_last_round_of_a_run_that_has_learned_nothing_waits_for_as_long() -> None:
    """A run of three rounds ended after 140 s online, and said that it was done."""
    away = [Op("drop", f"p{i:02d}", "Hello", n) for i in range(6) for n in range(9)]
    world = World(scenario(12, **ACTIVE, rounds="3"), ops=away).run()
    assert world.server.outcome == Aborted("too few parties for a round in 600 s online (deadlines.quorum)")
    assert [r.seconds for r in world.reports(QuorumAwaited)][-1] == 600.0
    assert [r.round for r in world.reports(RoundSkipped)] == [0, 1, 2]
    # In time for the last round.
    back = [Op("drop", f"p{i:02d}", "Hello", n) for i in range(6) for n in range(2)]
    world = World(scenario(12, **ACTIVE, rounds="3"), ops=back).run()
    assert [len(done.survivors) for done in world.reports(RoundDone)] == [0, 0, 12]


def test_a_party_that_starts_while_hellos_are_awaited_takes_part_in_the_round() -> None:
    """Its process died before the invitation came, and another one has started since."""
    ops = [Op("drop", "p05", "Hello", 0)]
    world = World(scenario(6), ops=ops)
    node = world.nodes[PartyId("p05")]

    def restart(other: Any, _before: object, event: object, _after: object, _effects: object) -> None:
        if isinstance(node.phase, HelloSent) and other.name == SERVER and not restarted:
            restarted.append(event)
            node.phase, effects = node.machine.start(world.now)
            world._perform(node, effects)

    restarted: list[object] = []
    world.observers.append(restart)
    world.run()
    sent = [(s.to, type(s.message)) for s in world.sent if s.sender == SERVER]
    assert (PartyId("p05"), ModelAnnounce) in sent
    assert (PartyId("p05"), Invite) in sent
    assert len(world.messages(Here, PartyId("p05"))) == 2
    assert len(world.messages(Hello, PartyId("p05"))) == 2
    assert [len(done.survivors) for done in world.reports(RoundDone)] == [6]
    assert world.now < 20


def test_whoever_starts_again_and_again_is_sent_the_model_once() -> None:
    machine, phase, _ = greeting(scenario(6))
    started = Received(1.0, PartyId("p05"), Place(-1), FIRST, b"frame")
    phase, effects = machine.step(phase, started)
    assert [type(e.message) for e in effects if isinstance(e, Send)] == [ModelAnnounce, Invite]
    _, effects = machine.step(phase, started)
    assert not any(isinstance(effect, Send) for effect in effects)
