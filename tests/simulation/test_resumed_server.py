"""A server killed before each message that it sends: the run goes on, and costs one round at most."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import ANNOUNCED, DREW, Aborted, Finished, Journal, Reject, Send
from securefl.protocol.kernel.events import Place, Received
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import Release, Reveal
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.server.machine import ServerMachine
from securefl.protocol.round.server.phases import CollectingHellos, ServerPhase
from securefl.protocol.round.server.proving import CLAIMED_OTHERWISE
from securefl.protocol.round.shared.lateness import BEFORE_RESTART
from securefl.protocol.round.shared.reports import (
    ClaimConfirmed,
    ClaimRefused,
    RoundDone,
    RoundSkipped,
    RunEffect,
    SumOpened,
)
from securefl.runtime.process.checkpoint import checkpoint_from
from tests.simulation.lying import distinct, kept_evidence, other_outcome, verified
from tests.simulation.spy import Grasp, spying
from tests.simulation.test_exact_sums import check_all, samples, uneven
from tests.simulation.test_verified_rules import five
from tests.simulation.world import Node, Op, World, scenario
from tests.tiers import covering, sampled
from tests.vectors.test_transcripts import MODES

HIDDEN = {
    "size": "4",
    "threshold": "4",
    "min_survivors": "4",
    "clustering__atoms": "4",
    "weighting__mode": "ignore",
    "groups__count": "2",
    "groups__mode": "hidden",
}
SETTINGS = {
    "masking": scenario(6, rounds="3"),
    "reclustered": scenario(12, rounds="3", size="4", reclusterings="2", leakage__mode="report"),
    "active": scenario(6, rounds="3", server="active", size="6", threshold="4", min_survivors="5"),
    "verified": verified(rounds="3"),
    "atoms": scenario(8, rounds="3", clustering__atoms="2", size="4"),
    "hidden": scenario(8, rounds="3", **HIDDEN),
}
EXACT = {"masking", "reclustered", "active", "verified", "atoms"}
"""Settings whose opened sums are sums of updates."""


def world_of(setting: str, *ops: Op) -> World:
    return World(SETTINGS[setting], length=4, train=uneven, samples=samples, ops=ops)


@cache
def undisturbed(setting: str) -> World:
    return world_of(setting).run()


def points(setting: str) -> list[tuple[str, int]]:
    """What the server sends, by kind and number: up to four of each kind."""
    sent = Counter(type(one.message).__name__ for one in undisturbed(setting).sent if one.sender == SERVER)
    return [
        (kind, nth)
        for kind, count in sorted(sent.items())
        for nth in sorted({0, count // 3, 2 * count // 3, count - 1})
    ]


def check(world: World, setting: str, most_void: int = 1) -> None:
    """All that must hold whatever happened."""
    assert isinstance(world.server.outcome, Finished), world.server.outcome
    for name in world.parties:
        assert isinstance(world.nodes[name].outcome, Finished), (name, world.nodes[name].outcome)
        assert not world.nodes[name].rejects, (name, world.nodes[name].rejects)
    rounds = {done.round: done for done in world.reports(RoundDone)}
    assert sorted(rounds) == [0, 1, 2]
    without = [round_ for round_, done in rounds.items() if not done.opened]
    assert len(without) <= most_void, world.reports(RoundSkipped)
    if setting in EXACT:
        check_all(world)
    opened = {(one.round, *one.opened.key, one.opened.ring.tobytes()) for one in world.reports(SumOpened)}
    # A sum may open at two servers: the same one.
    assert len({one[:3] for one in opened}) == len(opened)
    for kind in (MaskedInput, Release):
        given = Counter(
            (one.sender, one.place, getattr(one.message, "vector", getattr(one.message, "sealed", b"")))
            for one in world.sent
            if isinstance(one.message, kind)
        )
        by_place = Counter((sender, place) for sender, place, _ in given)
        slots = 2 if setting == "hidden" and kind is Release else 1
        assert all(count <= slots for count in by_place.values()), by_place


def cover() -> list[tuple[str, str, int]]:
    """Setting, kind and number: each kind of message under one setting, each setting at three or more."""
    found: dict[str, list[tuple[str, int]]] = {setting: points(setting) for setting in SETTINGS}
    chosen: list[tuple[str, str, int]] = []
    for place, kind in enumerate(sorted({kind for sent in found.values() for kind, _ in sent})):
        able = [setting for setting, sent in found.items() if kind in dict(sent)]
        numbers = [nth for one, nth in found[able[place % len(able)]] if one == kind]
        chosen.append((able[place % len(able)], kind, numbers[place % len(numbers)]))
    for setting, sent in found.items():
        fewer = 3 - sum(one[0] == setting for one in chosen)
        chosen += [(setting, *sent[k * len(sent) // fewer]) for k in range(max(0, fewer))]
    return chosen


def kill_before(cases: list[tuple[str, str, int]]) -> None:
    failed: list[str] = []
    for setting, kind, nth in cases:
        world = world_of(setting, Op("restart", SERVER, kind, nth)).run()
        assert world.starts == 2
        try:
            check(world, setting)
            assert not world.server.rejects, world.server.rejects
        except AssertionError as error:
            reason = str(error).splitlines()[0] if str(error) else repr(error)
            failed.append(f"{setting}, {kind} {nth}: {reason}")
    assert not failed, "\n".join(failed)


def test_a_kill_before_each_kind_of_message_costs_one_round_at_most() -> None:
    kill_before(cover())


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_kill_before_any_message_costs_one_round_at_most(setting: str) -> None:
    kill_before([(setting, kind, nth) for kind, nth in points(setting)])


@pytest.mark.parametrize(("setting", "kind"), covering(SETTINGS, ("Invite", "Announce", "Reveals", "Freeze")))
def test_a_kill_in_each_round_costs_each_of_them_at_most(setting: str, kind: str) -> None:
    """Three kills: rounds are lost, and nothing else is."""
    named = {"Announce": "ChainedAnnounce", "Freeze": "BindingFreeze"} if setting == "verified" else {}
    ops = [Op("restart", SERVER, named.get(kind, kind), nth) for nth in (0, 2, 4)]
    world = world_of(setting, *ops).run()
    assert isinstance(world.server.outcome, Finished | Aborted)
    if isinstance(world.server.outcome, Finished):
        check(world, setting, most_void=2)
    if setting in EXACT:
        check_all(world)


@pytest.mark.parametrize("every", sampled([8, 1], [8]))
@pytest.mark.parametrize("setting", ["masking", "reclustered", "active"])
def test_nobody_is_exposed_over_all_epochs(setting: str, every: int) -> None:
    """At every message of a setting in the slow tier, at every eighth in the other."""
    for kind, nth in points(setting)[::every]:
        with spying() as spy:
            world = world_of(setting, Op("restart", SERVER, kind, nth)).run()
        fewest = world.scenario.secure_sum.min_survivors
        for group in Grasp(spy, []).alone():
            raise AssertionError(f"{kind} {nth}: {group} is exposed; sums have {fewest} members or more")


@pytest.mark.parametrize(
    ("setting", "sent"), covering(SETTINGS, ["p05 Hello", "p00 Hello", f"{SERVER} Invite"])
)
def test_a_round_that_was_only_invited_begins_again(setting: str, sent: str) -> None:
    who, kind = sent.split()
    world = world_of(setting, Op("restart", who, kind, 1)).run()
    check(world, setting, most_void=0)
    assert [done.round for done in world.reports(RoundDone)] == [0, 0, 1, 2], "its model is tested again"


def test_the_model_is_that_of_a_run_without_the_kill_where_no_round_is_void() -> None:
    world = world_of("masking", Op("restart", "p05", "Hello", 1)).run()
    for round_, params in undisturbed("masking").models.items():
        assert params.tolist() == world.models[round_].tolist()


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_a_round_comes_to_is_written_down_before_anybody_hears_of_it(setting: str) -> None:
    """The next server knows what is void only from there."""
    world = world_of(setting)
    before: dict[str, list[list[str]]] = {"Announce": [], "Reveals": []}

    def observe(
        node: Node, _before: object, _event: object, _after: object, effects: tuple[RunEffect, ...]
    ) -> None:
        written: list[str] = []
        for effect in effects:
            if isinstance(effect, Journal):
                written.append(f"{effect.round} {effect.step.split()[0]}")
            elif node.name == SERVER and isinstance(effect, Send):
                kind = type(effect.message).__name__.removeprefix("Chained")
                before.get(kind, []).append([f"{effect.place.round}", *written])

    world.observers.append(observe)
    world.run()
    assert before["Announce"] == [[str(r), f"{r} {ANNOUNCED}"] for r in range(3)]
    assert [found[-1] for found in before["Reveals"]] == [f"{r} {DREW.strip()}" for r in range(3)]


@pytest.mark.parametrize("kind", ["KeyList", "Freeze"])
def test_a_void_round_counts_as_released(kind: str) -> None:
    """Whoever was drawn may have released, as far as the next server can know."""
    made = scenario(6, rounds="3", **MODES["noise"])
    world = World(made, length=4, train=uneven, samples=samples, ops=[Op("restart", SERVER, kind, 0)]).run()
    assert [done.round for done in world.reports(RoundDone) if not done.opened] == [0]
    state = checkpoint_from(world.server.kept or b"", world.plan, "checkpoint")
    assert [state.standing.releases[party] for party in world.parties] == [3] * 6


class TestKilledAsSharesLeave:
    """The next server asks for the same shares: no round is void, in pairs neither.

    It would have to begin another one with the same model, and sums on one model are limited over all rounds.
    """

    @pytest.mark.parametrize(("parties", "size"), [(4, 2), (6, 2), (6, 3), (12, 4), (12, 6)])
    @pytest.mark.parametrize("server", ["curious", "active"])
    @pytest.mark.parametrize("seeds", sampled([range(1), range(1, 8)], [range(1)]))
    def test_no_round_is_void(self, parties: int, size: int, server: str, seeds: range) -> None:
        for seed in seeds:
            threshold = "2" if server == "curious" else str(size // 2 + 1)
            small = {"threshold": threshold, "min_survivors": threshold}
            made = scenario(parties, size=str(size), rounds="4", server=server, **small)
            for who in ("p00", f"p{parties - 1:02d}"):
                op = Op("restart", who, "Release", 0)
                world = World(made, length=2, seed=seed, train=uneven, samples=samples, ops=[op]).run()
                assert all(done.opened for done in world.reports(RoundDone))
                assert world.starts == 2
                check_all(world)

    @pytest.mark.parametrize("mode", sorted(MODES))
    def test_in_every_kind_of_sum(self, mode: str) -> None:
        """But with hidden groups, whose shares leave in two steps: there it is."""
        made = scenario(8 if mode == "hidden" else 6, **MODES[mode] | {"rounds": "3"})
        op = Op("restart", "p05", "Release", 0)
        whole, world = (
            World(made, seed=3, train=uneven, samples=samples, ops=ops).run() for ops in ((), [op])
        )
        assert (whole.starts, world.starts) == (1, 2)
        void = [done.round for done in world.reports(RoundDone) if not done.opened]
        if mode == "hidden":
            assert void == [0]
        else:
            assert not void
            for round_, params in whole.models.items():
                assert params.tolist() == world.models[round_].tolist()


class Rounding(World):
    """Until it is killed, the server's steps end in other last bits than those of the next server."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._otherwise = other_outcome(params=lambda params: np.nextafter(params, np.float32(9)))
        self._otherwise.__enter__()

    def kill_server(self) -> None:
        self._otherwise.__exit__(None, None, None)
        super().kill_server()


@pytest.mark.parametrize(("kind", "nth"), [("OpeningProof", 7), ("StepProof", 0), ("StepProof", 2)])
def test_nobody_is_convicted_where_the_second_step_has_another_outcome(kind: str, nth: int) -> None:
    """The first server claimed its outcome; another claim of the round would be the server's fault."""
    world = Rounding(five(), length=8, train=distinct, ops=[Op("restart", SERVER, kind, nth)]).run()
    assert world.starts == 2
    for name in world.nodes:
        assert not kept_evidence(world, name)
    assert [one.reason for one in world.reports(ClaimRefused)] == [CLAIMED_OTHERWISE]
    assert [one.round for one in world.reports(ClaimConfirmed)] == [1]


def test_messages_for_the_server_before_accuse_no_party(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late ones of rounds before the restart, whatever their kind: one cause, so that a log has one line."""
    world = world_of("masking", Op("restart", SERVER, "Announce", 1))
    greeting: list[tuple[ServerMachine, CollectingHellos]] = []
    step = ServerMachine.step

    def stepping(machine: ServerMachine, phase: ServerPhase, event: Event[AnyMessage]) -> Any:
        if isinstance(phase, CollectingHellos) and world.starts == 2:
            greeting.append((machine, phase))
        return step(machine, phase, event)

    monkeypatch.setattr(ServerMachine, "step", stepping)
    check(world.run(), "masking")
    machine, phase = greeting[0]
    reasons = set()
    for round_ in range(phase.standing.round):
        for message in (Release(sealed=b"x"), Reveal(nonce=bytes(32))):
            late: Received[AnyMessage] = Received(0.0, PartyId("p01"), Place(round_), message)
            _, effects = step(machine, phase, late)
            assert isinstance(effects[0], Reject)
            reasons.add(effects[0].reason)
    assert reasons == {BEFORE_RESTART}
