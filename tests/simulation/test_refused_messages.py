"""A refused message changes nothing, in every phase of every kind of sum.

Before each step of one party, everything that must be refused there is tried on it: messages of every kind
that hold nothing, messages at wrong places and from others, and all that it has taken before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Finished, Reject
from securefl.protocol.kernel.events import Received
from securefl.protocol.kernel.machine import Event, Machine
from securefl.protocol.messages.crypten import PeerBox
from securefl.protocol.messages.masking import BoxList, KeyList, Retry
from securefl.protocol.messages.rounds import Certificate, Freeze
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.validation import DealtTo, HeldList, SketchNonces, Verdicts
from securefl.protocol.round.party.phases import Working
from securefl.protocol.round.shared.reports import RunEffect, SumOpened, UpdatesValidated
from securefl.protocol.secure_sum.validated import phases as validated_phases
from securefl.protocol.secure_sum.validated.validation import CHECK_NUMBERS, SHARE_NUMBER
from securefl.scenario.scenario import Scenario
from tests.crypten_threads import crypten_threads, end_abandoned
from tests.simulation.world import Op, World, scenario

ME = PartyId("p01")
EMPTY: tuple[AnyMessage, ...] = (
    KeyList(adverts=()),
    DealtTo(frame=bytes(64)),
    HeldList(receipts=()),
    SketchNonces(nonces=()),
    Verdicts(verdicts=()),
)
"""Of every kind that a sum is made of, with nothing in it."""


@dataclass
class Pestered:
    """A party's machine that is offered, before each step, whatever has to be refused there."""

    machine: Machine[Any, Event[AnyMessage], RunEffect]
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a kind of message was refused in a phase of an instance."""
    taken: list[Received[AnyMessage]] = field(default_factory=list)

    def start(self, now: float) -> tuple[Any, tuple[RunEffect, ...]]:
        return self.machine.start(now)

    def step(self, phase: Any, event: Event[AnyMessage]) -> tuple[Any, tuple[RunEffect, ...]]:
        if isinstance(phase, Working):
            for wrong in self.wrong(phase, event if isinstance(event, Received) else self.taken[-1]):
                after, effects = self.machine.step(phase, wrong)
                assert after is phase, f"{type(wrong.message).__name__} changed {at(phase)}"
                assert all(isinstance(effect, Reject) for effect in effects), (wrong, effects)
                self.kinds[at(phase), type(wrong.message).__name__] += bool(effects)
        after, effects = self.machine.step(phase, event)
        if isinstance(event, Received) and after is not phase:
            self.taken.append(event)
        return after, effects

    def wrong(self, phase: Working, event: Received[AnyMessage]) -> list[Received[AnyMessage]]:
        """Everything to be tried, in the manner of an event that is due or was."""
        place = event.place._replace(reclustering=0, cluster=0, attempt=0)
        # Masked sums: a list without boxes tells a member that it is not counted, where one is due.
        more = () if at(phase) == "Boxed" else (BoxList(boxes=()),)
        empty = [replace(event, place=place, message=message) for message in (*EMPTY, *more, *boxes(phase))]
        moved = [
            replace(event, place=event.place._replace(**change))
            for change in ({"round": 7}, {"cluster": 9}, {"reclustering": 3}, {"attempt": 5})
            if not isinstance(event.message, Freeze | Certificate) or change == {"round": 7}
        ]
        others = [replace(event, sender=PartyId("p00")), replace(event, sender=PartyId("nobody"))]
        again = [one for one in self.taken[-12:] if one.place.round == phase.round]
        retry = replace(event, place=place, message=Retry(members=("p00", "p01", "nobody")))
        return [*empty, *moved, *others, *again, retry]


def boxes(phase: Working) -> list[PeerBox]:
    """Messages of other members that open nowhere; a share that is still due would be complained about."""
    (instance,) = phase.instances.values()
    gathering = isinstance(instance, validated_phases.Gathering)
    numbers = [0, 1, 255, 256, *(owner * CHECK_NUMBERS + n for owner in range(5) for n in (0, 1, 300))]
    if not gathering:
        numbers.append(SHARE_NUMBER)
    return [PeerBox(peer=peer, number=n, box=bytes(60)) for peer in range(5) for n in dict.fromkeys(numbers)]


def at(phase: Working) -> str:
    (instance,) = phase.instances.values()
    return type(instance).__name__


def of_kind(kind: str) -> Scenario:
    crypten = {"secure_sum__kind": '"crypten"', "weighting__mode": '"ignore"'}
    more = {
        "masking": {},
        "crypten": crypten,
        "validated": crypten | {"secure_sum__validate": "{ norm = 4.0 }", "encoding__clip": "3.6"},
    }
    return scenario(4, size="4", threshold="3", min_survivors="3", server="active", **more[kind])


def ran(kind: str, *, pester: bool, ops: Sequence[Op] = ()) -> tuple[World, Pestered | None]:
    end_abandoned()
    world = World(of_kind(kind), ops=list(ops))
    if not pester:
        return world.run(), None
    node = world.nodes[ME]
    pest = Pestered(node.machine)
    node.machine = pest
    return world.run(), pest


PHASES = {
    "masking": {"Advertised", "Boxed", "Ready", "Submitted"},
    "crypten": {"Advertised", "Listed", "Submitted"},
    "validated": {"Advertised", "Gathering", "Holding", "Revealed", "Checking", "Judged", "Submitted"},
}


@pytest.mark.parametrize("kind", PHASES)
def test_the_run_goes_on_as_if_nothing_wrong_had_come(kind: str) -> None:
    plain, _ = ran(kind, pester=False)
    world, pest = ran(kind, pester=True)
    assert pest is not None
    assert isinstance(world.server.outcome, Finished)
    (before,), (after,) = (run.reports(SumOpened) for run in (plain, world))
    assert after.opened.survivors == before.opened.survivors == tuple(world.parties)
    np.testing.assert_array_equal(after.opened.ring, before.opened.ring)
    assert not world.nodes[ME].rejects
    assert {phase for phase, _ in pest.kinds} == PHASES[kind]
    everywhere = {"KeyList", "PeerBox", "DealtTo", "HeldList", "SketchNonces", "Verdicts", "Retry"}
    for phase in PHASES[kind]:
        refused = {name for at_, name in pest.kinds if at_ == phase and pest.kinds[at_, name]}
        assert refused >= everywhere, phase
    if kind == "validated":
        (told,) = world.reports(UpdatesValidated)
        assert told.rejected == ()
    assert crypten_threads() == []


def test_what_came_before_its_check_is_refused_when_it_comes_again() -> None:
    """The nonces reach one party last. Taken twice, a message would be found when its triples are gone."""
    late = Op("delay", "server", "SketchNonces", nth=1)
    world, pest = ran("validated", pester=True, ops=[late])
    assert pest is not None
    kinds = [type(event.message) for event in pest.taken]
    early = kinds[kinds.index(HeldList) + 1 : kinds.index(SketchNonces)]
    assert set(early) == {PeerBox}, "some came in time to be tried again"
    assert isinstance(world.server.outcome, Finished)
    (told,) = world.reports(UpdatesValidated)
    assert told.rejected == ()
    assert crypten_threads() == []
