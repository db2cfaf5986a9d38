"""A party killed in a round and started again at once: nobody waits for answers of its new process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Finished, Send
from securefl.protocol.kernel.events import Offline, Online, Place, Received
from securefl.protocol.messages.control import Here
from securefl.protocol.messages.rounds import Announce, Hello, ModelAnnounce, Reveal
from securefl.protocol.round.server.phases import CollectingHellos, CollectingNonces, Summing
from securefl.protocol.round.shared.presence import FIRST
from securefl.protocol.round.shared.reports import DrawVoided, RoundDone
from tests.simulation.world import Node, Op, World, scenario

P4, P5 = PartyId("p04"), PartyId("p05")
ACTIVE = {"size": "4", "threshold": "3", "min_survivors": "3", "server": "active"}
VERIFIED = {
    **ACTIVE,
    "secure_sum__verify": '"committee"',
    "secure_sum__colluders": "1",
    "secure_sum__colluders_per_cluster": "1",
}
LONG = {
    f"deadlines__{step}": "900"
    for step in ("hello", "reveal", "keys", "shares", "training", "certify", "release")
}
"""Every step's deadline: a run that waits for one lasts longer than all rounds."""
STEPS = ("Reveal", "KeyAdvert", "ShareBoxes", "MaskedInput", "Receipt", "Endorse", "Release")
OLD, NEW = b"\0" * 7 + b"o", b"\0" * 7 + b"n"


def counted(world: World) -> list[int]:
    assert isinstance(world.server.outcome, Finished)
    return [len(done.survivors) for done in world.reports(RoundDone)]


def at(world: World, act: Callable[[Node, Any], bool]) -> None:
    """Call ``act`` after each step with the node and its phase, until it returns True."""
    done: list[bool] = []

    def watch(node: Node, _before: object, _event: object, after: object, _effects: object) -> None:
        if not done and act(node, after):
            done.append(True)

    world.observers.append(watch)


@pytest.mark.parametrize("fields", [{}, ACTIVE, VERIFIED], ids=["curious", "active", "verified"])
@pytest.mark.parametrize("kind", STEPS)
def test_a_party_started_again_in_a_round_costs_no_deadline(kind: str, fields: dict[str, str]) -> None:
    """Its process returns before it is missed, in each step from its nonce on. Later rounds have it."""
    kind = "ChainedReveal" if kind == "Reveal" and fields is VERIFIED else kind
    world = World(scenario(12, rounds="3", **fields, **LONG), ops=[Op("rejoin", P5, kind)]).run()
    assert (world.starts, world.counts.get((P5, kind), 0) > 0) == (2, True) or kind in {"Receipt", "Endorse"}
    first, *later = counted(world)
    assert first >= 8
    assert later == [12, 12]
    assert world.now < 60, "seconds by the virtual clock; a deadline is 900 s"
    assert not world.server.rejects


def test_a_party_killed_after_its_hello_is_invited_again_and_counted() -> None:
    """Its first hello is not announced: no nonce could follow."""
    world = World(scenario(6, **LONG), ops=[Op("delay", P4, "Hello")])
    at(
        world,
        lambda node, after: _restart_if(
            world, node, isinstance(after, CollectingHellos) and P5 in after.hellos
        ),
    )
    world.run()
    assert counted(world) == [6]
    assert len(world.messages(Hello, P5)) == 2
    assert not world.reports(DrawVoided)
    (announced,) = world.messages(Announce)
    assert len(announced.hellos) == 6
    assert world.now < 60


def _restart_if(world: World, node: Node, due: bool, name: PartyId = P5) -> bool:
    if due and node.name == SERVER:
        world.restart_party(name)
        return True
    return False


def test_one_that_starts_again_and_again_gets_the_model_once_and_delays_nobody() -> None:
    world = World(scenario(6, rounds="2", **LONG), ops=[Op("delay", P4, "Hello")])
    killed: list[int] = []

    def restart_twice(node: Node, after: Any) -> bool:
        hellos = len(world.messages(Hello, P5))
        there = isinstance(after, CollectingHellos) and P5 in after.hellos and hellos not in killed
        if _restart_if(world, node, there):
            killed.append(hellos)
        return len(killed) == 2

    at(world, restart_twice)
    world.run()
    assert counted(world) == [5, 6]
    sent = [one for one in world.sent if isinstance(one.message, ModelAnnounce) and one.to == P5]
    assert len(sent) == 1
    assert world.now < 60


def test_one_killed_in_a_second_draw_is_not_waited_for() -> None:
    """It cannot answer that draw without the first one, which is void."""
    drops = [Op("drop", P4, "Reveal", 0), Op("rejoin", P5, "Hello", 1)]
    world = World(scenario(9, rounds="2", **{**LONG, "deadlines__reveal": "5"}), ops=drops).run()
    assert [one.withheld for one in world.reports(DrawVoided)] == [(P4,)]
    assert counted(world) == [7, 9]
    assert world.now < 60


def test_a_broken_connection_of_the_same_process_is_no_restart() -> None:
    world = World(scenario(6, **LONG))
    world.working[P5] = 20.0

    def reconnect(node: Node, after: Any) -> bool:
        if node.name != SERVER or not isinstance(after, Summing):
            return False
        world._schedule(2.0, P5, Offline(0.0))
        world._schedule(3.0, P5, Online(0.0, 2, kept=True))
        return True

    at(world, reconnect)
    world.run()
    assert Here(connection=2, kept=True) in world.messages(Here, P5)
    assert counted(world) == [6]


def test_frames_of_an_earlier_process_are_refused_and_cost_the_party_nothing() -> None:
    """A broker replays all frames that the first process has sent, while the second one trains."""
    world = World(scenario(6, rounds="2", **LONG), ops=[Op("rejoin", P5, "MaskedInput")])
    recorded: list[bytes] = []
    frames = world.nodes[P5].outbox.frames

    def recording(*args: Any) -> list[bytes]:
        made = list(frames(*args))
        recorded.extend(made)
        return made

    world.nodes[P5].outbox = _Recording(recording)  # type: ignore[assignment]

    def replay(node: Node, after: Any) -> bool:
        if node.name != SERVER or not isinstance(after, Summing) or after.standing.round != 1:
            return False
        for frame in recorded:
            world._schedule(0.0, SERVER, frame)
        return True

    at(world, replay)
    world.working[P5] = 5.0
    world.run()
    assert counted(world) == [5, 6]
    assert {one.culprit for one in world.server.rejects} == {"broker"}
    assert len(world.server.rejects) == len(recorded) > 3


class _Recording:
    def __init__(self, frames: Callable[..., list[bytes]]) -> None:
        self.frames = frames


class TestSessions:
    """The server's machine by itself, with messages of two sessions of p05."""

    def _phase(self, kind: type) -> tuple[Any, Any]:
        world = World(scenario(6))
        seen: list[Any] = []
        world.observers.append(
            lambda _node, before, *_: seen.append(before) if isinstance(before, kind) else None
        )
        world.run()
        phase = seen[-1]
        known = replace(phase.standing.session, answering={P5: OLD}, restarted=frozenset())
        return world.server.machine, replace(phase, standing=replace(phase.standing, session=known))

    @pytest.mark.parametrize("kind", [CollectingNonces, Summing])
    @pytest.mark.parametrize("message", [FIRST, Here(connection=2, kept=False), Reveal(nonce=bytes(32))])
    def test_any_message_of_another_session_shows_a_restart(self, kind: type, message: Any) -> None:
        machine, phase = self._phase(kind)
        event = Received(phase.standing.session.pace.began, P5, Place(-1), message, b"frame", NEW)
        after, _ = machine.step(phase, event)
        assert after.standing.session.restarted == {P5}
        again, _ = machine.step(after, event)
        assert again.standing.session.restarted == {P5}

    @pytest.mark.parametrize(("sender", "session"), [(P5, OLD), (P5, b""), (P4, NEW)])
    def test_messages_of_the_same_an_unknown_and_a_new_sender_do_not(
        self, sender: PartyId, session: bytes
    ) -> None:
        machine, phase = self._phase(Summing)
        event = Received(phase.standing.session.pace.began, sender, Place(-1), FIRST, b"frame", session)
        after, _ = machine.step(phase, event)
        assert after.standing.session.restarted == frozenset()

    def test_an_unannounced_hello_is_dropped_and_the_new_process_invited(self) -> None:
        machine, phase = self._phase(CollectingHellos)
        assert len(phase.hellos) == 5
        hello = next(iter(phase.hellos.values()))
        phase = replace(phase, hellos={P5: hello})
        event = Received(phase.standing.session.pace.began, P5, Place(-1), FIRST, b"frame", NEW)
        after, effects = machine.step(phase, event)
        assert after.hellos == {}
        assert after.standing.session.answering == {P5: NEW}
        assert after.standing.session.restarted == frozenset()
        assert [type(one.message).__name__ for one in effects if isinstance(one, Send)] == [
            "ModelAnnounce",
            "Invite",
        ]

    def test_the_next_round_begins_without_restarts(self) -> None:
        world = World(scenario(6, rounds="2", **LONG), ops=[Op("rejoin", P5, "MaskedInput")])
        restarted: list[tuple[int, frozenset[PartyId]]] = []
        world.observers.append(
            lambda node, _before, _event, after, _effects: (
                restarted.append((after.standing.round, after.standing.session.restarted))
                if node.name == SERVER and isinstance(after, Summing)
                else None
            )
        )
        world.run()
        assert (0, frozenset({P5})) in restarted
        assert {of for round_, of in restarted if round_ == 1} == {frozenset()}
