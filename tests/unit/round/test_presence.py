"""Who is said to be gone, who says that it is here, and what becomes of a machine's own connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.protocol.kernel.effects import Reject, Report, Send, WakeAt
from securefl.protocol.kernel.events import Heard, Offline, Online, Place, PresenceHint, Received
from securefl.protocol.messages.control import Here, RollCall
from securefl.protocol.messages.rounds import Reveal
from securefl.protocol.round.shared.absence import update_absences
from securefl.protocol.round.shared.reports import (
    ConnectionBack,
    ConnectionLost,
    LateJoin,
    PartiesJoined,
    RoundDone,
)
from tests.simulation.world import Node, Op, World, scenario

P1, P2 = PartyId("p01"), PartyId("p02")
HERE = Here(connection=2, kept=True)


def greeting() -> tuple[Node, Any]:
    """A server that waits for hellos."""
    world = World(scenario(6))
    node, seen = world.server, list[object]()
    world.observers.append(lambda n, before, *_: seen.append(before) if n is node else None)
    world.run()
    (_, phase, *_) = [phase for phase in seen if type(phase).__name__ == "CollectingHellos"]
    return node, phase


def hinted(node: Node, phase: Any) -> Any:
    """The same with two parties gone and late."""
    for party in (P1, P2):
        phase, _ = node.machine.step(phase, PresenceHint(phase.deadline - 9.0, party))
    assert phase.standing.session.disconnected.keys() == {P1, P2}
    return replace(phase, standing=replace(phase.standing, late=frozenset({P1, P2})))


@pytest.mark.parametrize(
    ("message", "refused"),
    [(HERE, False), (Reveal(nonce=bytes(32)), True), (RollCall(), True)],
    ids=["here", "too-early", "not-for-servers"],
)
def test_any_authentic_frame_clears_the_hints_of_its_sender_and_of_nobody_else(
    message: Any, refused: bool
) -> None:
    node, phase = greeting()
    phase = hinted(node, phase)
    event = Received(phase.deadline - 8.0, P1, Place(-1), message, b"frame")
    after, effects = node.machine.step(phase, event)
    assert any(isinstance(effect, Reject) for effect in effects) == refused
    assert after.standing.session.disconnected.keys() == after.standing.late == {P2}


def test_nobody_keeps_in_mind_who_is_no_party() -> None:
    """The broker could fill the server's memory with names."""
    node, phase = greeting()
    after, _ = node.machine.step(phase, PresenceHint(phase.deadline - 9.0, PartyId("stranger")))
    assert after.standing.session.disconnected == {}


def test_a_part_of_a_message_clears_them_too() -> None:
    """Who sends a large vector is there for as long as that takes."""
    node, phase = greeting()
    phase, _ = node.machine.step(hinted(node, phase), Heard(phase.deadline - 8.0, P1))
    assert phase.standing.session.disconnected.keys() == phase.standing.late == {P2}


def test_a_server_that_was_away_forgets_all_hints_and_says_that_it_is_here() -> None:
    node, phase = greeting()
    phase = hinted(node, phase)
    now = phase.deadline - 8.0
    phase, effects = node.machine.step(phase, Offline(now))
    assert Report(ConnectionLost()) in effects
    assert phase.standing.session.disconnected.keys() == {P1, P2}
    phase, effects = node.machine.step(phase, Online(now + 1.0, 2, kept=True))
    assert (phase.standing.session.disconnected, phase.standing.late) == ({}, frozenset())
    assert Report(ConnectionBack(2, kept=True)) in effects
    assert Send(EVERYONE, Place(-1), HERE) in effects


@pytest.mark.parametrize("name", [P1, SERVER])
def test_a_machine_says_that_it_is_here_before_anything_else(name: PartyId) -> None:
    _, (first, *_) = World(scenario(6)).nodes[name].machine.start(0.0)
    to = EVERYONE if name == SERVER else SERVER
    assert first == Send(to, Place(-1), Here(connection=1, kept=False))


def test_a_party_that_is_back_says_so_and_its_patience_begins_anew() -> None:
    node = World(scenario(6)).nodes[P1]
    phase, effects = node.machine.start(0.0)
    patience = next(effect.when for effect in effects if isinstance(effect, WakeAt))
    assert patience is not None
    phase, effects = node.machine.step(phase, Offline(7.0))
    assert effects == (Report(ConnectionLost()), WakeAt(None))
    after, effects = node.machine.step(phase, Online(1e6, 2, kept=False))
    assert after is phase
    assert effects == (
        Report(ConnectionBack(2, kept=False)),
        Send(SERVER, Place(-1), Here(connection=2, kept=False)),
        WakeAt(1e6 + patience),
    )


def test_a_party_takes_the_servers_here_as_a_word_of_it() -> None:
    node = World(scenario(6)).nodes[P1]
    phase, effects = node.machine.start(0.0)
    after, effects = node.machine.step(phase, Received(5.0, SERVER, Place(-1), HERE, b"frame"))
    assert after is phase
    assert [type(effect) for effect in effects] == [WakeAt]


@pytest.mark.parametrize("server", ["curious", "active"])
def test_a_party_that_was_missing_at_the_start_joins_a_later_round(server: str) -> None:
    """The server has led rounds 0 and 1 without it; it starts as round 1 ends."""
    world = World(scenario(6, rounds="4", server=server, threshold="3", min_survivors="3"))
    late = world.nodes[P1]
    late.alive = False

    def revive(node: Node, _before: object, _event: object, _after: object, effects: Any) -> None:
        if node is world.server and any(
            isinstance(one, Report) and isinstance(one.item, RoundDone) and one.item.round == 1
            for one in effects
        ):
            late.alive = True
            late.phase, _ = late.machine.start(world.now)

    world.observers.append(revive)
    world.run()
    assert [one.missing for one in world.reports(PartiesJoined)] == [(P1,)]
    assert world.reports(LateJoin) == [LateJoin(2, (P1,), ())]
    assert [P1 in one.survivors for one in world.reports(RoundDone)] == [False, False, True, True]
    assert not [node.rejects for node in world.nodes.values() if node.rejects]


def test_a_party_that_missed_rounds_returns() -> None:
    world = World(scenario(6, rounds="4"), ops=[Op("drop", P2, "Hello", 1)])
    world.run()
    assert world.reports(LateJoin) == [LateJoin(2, (), ((P2, 1),))]
    assert [P2 in one.survivors for one in world.reports(RoundDone)] == [True, False, True, True]


def test_absences_last_from_their_first_round_and_excluded_parties_have_none() -> None:
    first, ended = update_absences({}, 3, [P1], [P1, P2])
    assert (first, ended) == ({P2: 3}, ())
    second, ended = update_absences({**first, P1: None}, 5, [], [P2])
    assert (second, ended) == ({P2: 3}, ())
    _, (report,) = update_absences({P1: None, P2: 3}, 6, [P1, P2], [P1, P2])
    assert report == Report(LateJoin(6, (P1,), ((P2, 3),)))
    line = LateJoin(6, (P1,), ((P2, 3),)).line()
    assert line == "p01 joined in round 6; p02 returned in round 6, absent since round 3"
