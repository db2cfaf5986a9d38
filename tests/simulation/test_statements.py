"""Rounds that take an input and end without a certificate: statements of members resolve them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import ClustersClosed as Closed
from securefl.protocol.kernel.effects import Enter, Finished, Send, UpdateGiven
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.rounds import Certificate, Freeze, StatingHello
from securefl.protocol.round.party.phases import Idle
from securefl.protocol.round.party.resolving import BLOCKED
from securefl.protocol.round.shared.reports import RoundDone, RunEffect, SatOut, SharesReleased
from tests.simulation.world import Node, Op, World, scenario
from tests.unit.round.test_budget import PRIVATE

CRASHES = 20


def crashing(crashes: int = CRASHES, parties: int = 6, **sets: str) -> World:
    """A run whose server is killed in each of its first rounds, before its first freeze leaves."""
    ops = [Op("restart", SERVER, "Freeze", nth) for nth in range(crashes)]
    return World(scenario(parties, rounds=str(crashes + 2), **sets), length=4, ops=ops)


def entered(world: World, kind: type[Any]) -> dict[PartyId, list[Any]]:
    """Collect the entries of one kind in each party's account."""
    found: dict[PartyId, list[Any]] = {name: [] for name in world.parties}

    def watch(node: Node, _was: object, _event: object, _is: object, effects: Iterable[RunEffect]) -> None:
        if node.name in found:
            found[node.name] += [
                e.entry for e in effects if isinstance(e, Enter) and isinstance(e.entry, kind)
            ]

    world.observers.append(watch)
    return found


def last_past(world: World) -> Callable[[PartyId], Any]:
    """Keep the last past of each party."""
    seen: dict[PartyId, Any] = {}

    def watch(node: Node, _was: object, _event: object, after: Any, _effects: object) -> None:
        if node.name != SERVER and hasattr(after, "past"):
            seen[node.name] = after.past

    world.observers.append(watch)
    return lambda name: seen[name]


def test_twenty_crashes_between_input_and_freeze_cost_no_account() -> None:
    world = crashing(server="active")
    updates, closed, past_of = entered(world, UpdateGiven), entered(world, Closed), last_past(world)
    world.run()
    assert world.starts == CRASHES + 1
    assert isinstance(world.server.outcome, Finished), world.server.outcome
    opened = {done.round for done in world.reports(RoundDone) if done.opened}
    assert opened == {CRASHES, CRASHES + 1}
    for name in world.parties:
        assert [one.round for one in updates[name]] == [*range(CRASHES + 2)]
        refunded = [one.round for one in closed[name] if one.refunded]
        assert refunded == [*range(CRASHES)]
        assert past_of(name).unresolved == ()
        assert past_of(name).releases == 2
        assert not any(out.reason == BLOCKED for out in world.reports(SatOut, name))
        # The two models of the rounds that were opened: none that repeats.
        assert [len(rows) for rows in past_of(name).given.values()] == [2, 2]


def test_a_release_is_never_denied_by_an_honest_party() -> None:
    """What a hello states, no release of its sender contradicts, whenever it is sent."""
    world = crashing(3, server="active")
    world.ops += [Op("restart", SERVER, "Certificate", 1), Op("restart", SERVER, "ModelAnnounce", 6)]
    world.run()
    stated = {
        (one.sender, it.round)
        for one in world.sent
        if isinstance(one.message, StatingHello)
        for it in one.message.unreleased
    }
    released = {(name, out.round) for name in world.parties for out in world.reports(SharesReleased, name)}
    assert stated
    assert released
    assert stated.isdisjoint(released)


def test_members_wait_for_another_model_if_too_few_mates_state_anything() -> None:
    """Two of three members of a cluster never come back: the third one sits out, the others go on."""
    world = World(
        scenario(9, rounds="6", threshold="2", min_survivors="2", server="curious"),
        length=4,
        ops=[Op("restart", SERVER, "Freeze", 0)],
    )
    gone: list[PartyId] = []
    alone: list[PartyId] = []

    def watch(node: Node, _was: object, _event: object, after: Any, effects: Iterable[RunEffect]) -> None:
        entries = [e.entry for e in effects if isinstance(e, Enter) and isinstance(e.entry, UpdateGiven)]
        if entries and not alone and entries[0].round == 0:
            row = after.assignment.clusters[0][0]
            alone.append(row[0])
            gone.extend(row[1:])

    def end(node: Node, _event: object, effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
        if any(isinstance(e, Send) and isinstance(e.message, Freeze) for e in effects):
            for name in gone:
                world.nodes[name].alive = False
        return effects

    world.observers.append(watch)
    world.server.seam = lambda event, effects: end(world.server, event, effects)
    world.run()
    (name,) = alone
    skipped = [out.round for out in world.reports(SatOut, name) if out.reason == BLOCKED]
    assert skipped == [1], "round 1 begins with the model of round 0, round 2 with another one"
    assert [bool(done.opened) for done in world.reports(RoundDone)][:3] == [False, True, True]
    for other in world.parties:
        if other not in {name, *gone}:
            assert not any(out.reason == BLOCKED for out in world.reports(SatOut, other))


def test_updates_with_noise_of_their_own_do_not_wait() -> None:
    """Epsilon accounts for each of them; a round that is never resolved keeps its epsilon."""

    def played(**sets: str) -> World:
        world = World(scenario(6, rounds="3", **sets), length=4, ops=[Op("restart", SERVER, "Freeze", 0)])
        for name in world.parties:
            world.nodes[name].machine = Plain(world.nodes[name].machine)
        return world.run()

    class Plain:
        """A party of which no statement is sent."""

        def __init__(self, machine: Any) -> None:
            self.machine = machine

        def start(self, now: float) -> Any:
            return self.machine.start(now)

        def step(self, phase: Any, event: Any) -> Any:
            past = getattr(phase, "past", None)
            kept = (
                replace(phase, past=replace(past, rounds_without_release=())) if past is not None else phase
            )
            return self.machine.step(kept, event)

    noisy = played(**PRIVATE | {"privacy__releases": "9"})
    assert not any(out.reason == BLOCKED for name in noisy.parties for out in noisy.reports(SatOut, name))
    bare = played()
    assert all(any(out.reason == BLOCKED for out in bare.reports(SatOut, name)) for name in bare.parties)


def test_a_certificate_that_comes_after_the_statement_opens_nothing() -> None:
    """The server keeps certificates back until the next hellos state that nothing was released."""
    world = World(scenario(6, rounds="3", server="active"), length=4)
    held: list[Certificate] = []

    def late(_event: object, effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
        shown: list[RunEffect] = []
        for effect in effects:
            first = isinstance(effect, Send) and effect.place.round == 0
            if first and isinstance(effect, Send) and isinstance(effect.message, Certificate):
                held.append(effect.message)
            else:
                shown.append(effect)
            if isinstance(effect, Send) and type(effect.message).__name__ == "Announce" and held:
                shown += [Send(name, Place(0), held[0]) for name in world.parties]
        return tuple(shown)

    world.server.seam = late
    world.run()
    assert held
    for name in world.parties:
        assert 0 not in [out.round for out in world.reports(SharesReleased, name)]
    stated = [one for one in world.messages(StatingHello) if one.unreleased[0].round == 0]
    assert len(stated) >= len(world.parties)


def test_a_party_that_is_started_again_states_what_its_account_knows() -> None:
    world = crashing(1)
    world.run()
    node = world.nodes[PartyId("p00")]
    machine: Any = node.machine
    ctx = replace(
        machine._ctx, last_spent_round=0, rounds_without_release=((world.plan.run, 0), ("earlier", 4))
    )
    again = type(machine)(ctx)
    phase, _ = again.start(0.0)
    assert isinstance(phase, Idle)
    assert phase.past.rounds_without_release == ((world.plan.run, 0), ("earlier", 4))
