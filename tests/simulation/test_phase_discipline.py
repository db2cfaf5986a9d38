"""Every kind of message at every phase of both machines: what is not due changes nothing and never raises.

Phases and messages are those of a real run with a redraw, a retry and two reclusterings. Each message meets
each phase, at its own place and at wrong ones, from its sender and from others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, get_args
from unittest.mock import patch

import pytest
from msgspec import structs

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Reject, Send, WakeAt
from securefl.protocol.kernel.events import (
    Consulted,
    DeadlinePassed,
    Evaluated,
    Place,
    PresenceHint,
    Received,
    Trained,
)
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.control import Join, JoinRun, Pause, Software
from securefl.protocol.messages.crypten import PeerBox
from securefl.protocol.messages.masking import Retry
from securefl.protocol.messages.rounds import BestModel, ModelAnnounce, SlotCounts, ValuedInvite
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.validation import (
    DealRequest,
    Dealt,
    DealtTo,
    Held,
    HeldList,
    SketchNonce,
    SketchNonces,
    Verdict,
    Verdicts,
)
from securefl.protocol.round.party.phases import PartyPhase
from securefl.protocol.round.server import phases as server_phases
from securefl.protocol.round.server.machine import ServerMachine
from securefl.protocol.round.server.phases import ServerPhase
from securefl.protocol.secure_sum.removal import MemoryStore
from tests.simulation.lying import verified
from tests.simulation.world import Node, Op, World, scenario
from tests.tiers import covering

KINDS = [kind.__name__ for kind in get_args(AnyMessage)]
HIDDEN = {
    "size": "4",
    "clustering__atoms": "4",
    "weighting__mode": "ignore",
    "groups__count": "2",
    "groups__mode": "hidden",
    "threshold": "4",
    "min_survivors": "4",
}
PARTY_PHASES = [kind.__name__ for kind in get_args(PartyPhase)]
SERVER_PHASES = [kind.__name__ for kind in get_args(ServerPhase)]

DUE = {
    "Idle": {
        "Here",
        "RollCall",
        "Pause",
        "ModelAnnounce",
        "Goodbye",
        "Invite",
        "ValuedInvite",
        "Announce",
        "ChainedAnnounce",
        "Reveals",
        "Certificate",
    },
    "ModelReceived": {"Here", "RollCall", "Pause", "ModelAnnounce", "Goodbye", "Invite", "ValuedInvite"},
    "Choosing": {
        "Here",
        "RollCall",
        "Pause",
        "ModelAnnounce",
        "Goodbye",
        "Invite",
        "ValuedInvite",
        "Announce",
        "ChainedAnnounce",
    },
    "HelloSent": {
        "Here",
        "RollCall",
        "Pause",
        "ModelAnnounce",
        "Goodbye",
        "Invite",
        "ValuedInvite",
        "Announce",
        "ChainedAnnounce",
    },
    "NonceRevealed": {
        "Here",
        "RollCall",
        "Pause",
        "ModelAnnounce",
        "Goodbye",
        "Invite",
        "ValuedInvite",
        "Reveals",
    },
    "Working": {
        "Here",
        "RollCall",
        "Pause",
        "ModelAnnounce",
        "Goodbye",
        "KeyList",
        "BoxList",
        "PeerBox",
        "DealtTo",
        "HeldList",
        "SketchNonces",
        "Verdicts",
        "Retry",
        "Freeze",
        "BindingFreeze",
        "Certificate",
    },
    "Endorsed": {"Here", "RollCall", "Pause", "ModelAnnounce", "Goodbye", "Certificate"},
    "CountsReleased": {"Here", "RollCall", "Pause", "ModelAnnounce", "Goodbye", "Certificate", "SlotCounts"},
    "Ended": set[str](),
}
"""What may change a party's phase, or answer without blame, and where."""

GROUPED = ("Choosing", "CountsReleased")
"""Phases of runs with hidden task groups."""
VERIFIED = (
    "VectorReceipt",
    "BindingFreeze",
    "ChainedAnnounce",
    "ChainedReveal",
    "OpeningProof",
    "StepProof",
    "Attest",
)
"""Messages of runs with verified rounds."""

SERVER_DUE = {
    "Joining": {"Here", "Join", "JoinRun", "Software"},
    "CollectingHellos": {"Here", "Join", "JoinRun", "Software", "Hello", "StatingHello"},
    "CollectingNonces": {"Here", "Join", "JoinRun", "Software", "Reveal", "ChainedReveal"},
    "Summing": {
        "Here",
        "Join",
        "JoinRun",
        "Software",
        "KeyAdvert",
        "ShareBoxes",
        "MaskedInput",
        "Receipt",
        "VectorReceipt",
        "Complaint",
        "PeerBox",
        "Dealt",
        "Held",
        "SketchNonce",
        "Verdict",
    },
    "Certifying": {"Here", "Join", "JoinRun", "Software", "Endorse"},
    "Releasing": {"Here", "Join", "JoinRun", "Software", "Release"},
    "Consulting": {"Here", "Join", "JoinRun", "Software"},
    "Attesting": {"Here", "Join", "JoinRun", "Software", "Attest"},
    "Evaluating": {"Here", "Join", "JoinRun", "Software"},
    "Ended": set[str](),
}


STRANGE: tuple[AnyMessage, ...] = (
    PeerBox(peer=0, number=0, box=bytes(40)),
    DealRequest(members=("p00",), adverts=()),
    Dealt(member=0, key=bytes(32), box=bytes(40)),
    DealtTo(frame=bytes(64)),
    Held(lists=bytes(32), shares=bytes(32)),
    HeldList(receipts=()),
    SketchNonce(nonce=bytes(32)),
    SketchNonces(nonces=()),
    Verdict(accepted=()),
    Verdicts(verdicts=()),
)
"""Messages of other kinds of sums than this run's."""


@pytest.fixture(autouse=True)
def _nothing_is_discarded() -> Iterator[None]:
    """Phases of an earlier round still find their masked inputs."""
    with patch.object(MemoryStore, "discard_all", lambda _self: None):
        yield


class Recorded:
    """All phases of one run, at one party and at the server, and all messages that anybody received."""

    def __init__(self, *, grouped: bool = False, confirmed: bool = False) -> None:
        self._seen: dict[tuple[PartyId, str], list[object]] = {}
        self.events: dict[str, list[Received[AnyMessage]]] = {}
        if confirmed:
            self._run(World(verified(rounds="2"), length=4))
            self.me = PartyId("p00")
            return
        if grouped:
            self._run(World(scenario(8, rounds="2", **HIDDEN), length=4))
            self.me = PartyId("p00")
            return
        made = scenario(
            13,
            size="6",
            reclusterings="2",
            threshold="4",
            min_survivors="4",
            server="active",
            rounds="2",
            aggregation__rule='{ type = "fltrust" }',
            data__server_fraction="0.1",
        )
        ops = [Op("drop", "p12", "Reveal"), Op("spoil", "p08", "ShareBoxes")]
        self._run(World(made, ops=ops, length=4))
        # This run has masked sums: members have nothing to say to each other, and nothing is checked.
        for message in STRANGE:
            self.events[type(message).__name__] = [
                replace(event, message=message) for event in self.events["BoxList"]
            ]
        # Nor is it verified.
        self.events |= {kind: verifying().events[kind] for kind in VERIFIED}
        # Nor does it go by metrics.
        self.events["BestModel"] = [
            replace(event, message=BestModel(params=event.message.params))
            for event in self.events["ModelAnnounce"]
            if isinstance(event.message, ModelAnnounce)
        ]
        # Nor is anybody of an earlier version, nor does the server stop.
        self.events["Join"] = [
            replace(event, message=Join(config_digest=event.message.config_digest))
            for event in self.events["JoinRun"]
            if isinstance(event.message, JoinRun)
        ]
        self.events["Software"] = [
            replace(event, message=Software(python="3.12.1", numpy="2.4.6", securefl="0.2.0"))
            for event in self.events["JoinRun"]
        ]
        self.events["Pause"] = [
            replace(event, message=Pause(reason="stopped")) for event in self.events["RollCall"]
        ]
        # Nor does its clip move.
        self.events["ValuedInvite"] = [
            replace(event, message=ValuedInvite(**structs.asdict(event.message), values={"clip": 1.0}))
            for event in self.events["Invite"]
        ]
        # Nor has it hidden groups.
        self.events["SlotCounts"] = [
            replace(event, message=SlotCounts(seats=(6,))) for event in self.events["Freeze"]
        ]
        (retry,) = {message.members for message in self.world.messages(Retry)}
        self.me = PartyId(retry[0])
        """A party that came back from a retry."""

    def _run(self, world: World) -> None:
        self.world = world
        world.observers.append(self._observe)
        world.run()
        for name, node in world.nodes.items():
            self._seen.setdefault((name, type(node.phase).__name__), []).append(node.phase)

    def _observe(
        self, node: Node, before: object, event: Event[AnyMessage], _after: object, _effects: object
    ) -> None:
        known = self._seen.setdefault((node.name, type(before).__name__), [])
        if not any(before is p for p in known):
            known.append(before)
        if isinstance(event, Received):
            self.events.setdefault(type(event.message).__name__, []).append(event)

    def node(self, side: str) -> Node:
        return self.world.nodes[SERVER if side == "server" else self.me]

    def phases(self, side: str, at: str) -> list[object]:
        return self._seen.get((self.node(side).name, at), [])


@lru_cache(maxsize=1)
def recorded() -> Recorded:
    return Recorded()


@lru_cache(maxsize=1)
def grouped() -> Recorded:
    return Recorded(grouped=True)


@lru_cache(maxsize=1)
def verifying() -> Recorded:
    return Recorded(confirmed=True)


def record_of(at: str) -> Recorded:
    """The run in which a machine comes to a phase."""
    if at == "Attesting":
        return verifying()
    return grouped() if at in GROUPED else recorded()


def spread(items: list[object], most: int) -> list[object]:
    """At most ``most`` items, first and last included."""
    if len(items) <= most:
        return items
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def displaced(place: Place) -> list[Place]:
    return [
        place._replace(round=place.round + 1),
        place._replace(round=-1),
        place._replace(attempt=place.attempt + 1),
        place._replace(reclustering=5),
        place._replace(cluster=-1, reclustering=-1),
        place._replace(cluster=7),
    ]


def test_the_run_covers_all_kinds_and_phases() -> None:
    record = recorded()
    assert set(KINDS) - record.events.keys() == set()
    seen = {
        side: {at for at in (*PARTY_PHASES, *SERVER_PHASES) if record_of(at).phases(side, at)}
        for side in ("party", "server")
    }
    assert seen["party"] == set(PARTY_PHASES) == DUE.keys()
    assert seen["server"] == set(SERVER_PHASES) == SERVER_DUE.keys()


def received(kind: str, at: str) -> Iterator[Received[AnyMessage]]:
    """The run's messages of one kind, at right and wrong places, from right and wrong senders."""
    events = record_of(at).events.get(kind) or recorded().events[kind]
    for original in spread(list(events), 4):
        assert isinstance(original, Received)
        for sender in (original.sender, PartyId("p03"), PartyId("nobody"), SERVER):
            for place in (original.place, *displaced(original.place)):
                yield Received(original.now, sender, place, original.message, original.signed)


@pytest.mark.parametrize(("at", "kind"), covering(PARTY_PHASES, KINDS))
def test_party(at: str, kind: str) -> None:
    machine = record_of(at).node("party").machine
    for phase in spread(record_of(at).phases("party", at), 6):
        for event in received(kind, at):
            after, effects = machine.step(phase, event)
            rejected = any(isinstance(effect, Reject) for effect in effects)
            if at == "Ended":
                assert effects == ()
            elif kind not in DUE[at] or event.sender != SERVER:
                assert [type(effect) for effect in effects] == [Reject]
            if rejected or at == "Ended":
                assert after is phase
                # A bad box is answered by a complaint; nothing else follows a refusal.
                assert len(effects) <= 1 or kind == "BoxList"


def unchanged(before: Any, after: Any) -> bool:
    """Nothing but the hints differs: who is refused has been heard all the same."""
    if after is before:
        return True
    fields = {field.name for field in dataclasses.fields(before)} - {"standing"}
    one, other = (replace(phase.standing.session, disconnected={}) for phase in (before, after))
    kept = {field.name for field in dataclasses.fields(before.standing)} - {"session", "late"}
    return (
        one == other
        and all(getattr(after, name) is getattr(before, name) for name in fields)
        and all(getattr(after.standing, name) is getattr(before.standing, name) for name in kept)
    )


@pytest.mark.parametrize(("at", "kind"), covering(SERVER_PHASES, KINDS))
def test_server(at: str, kind: str) -> None:
    """``step`` may also close what was due at that time, so the handler is asked about the phase."""
    machine = record_of(at).node("server").machine
    assert isinstance(machine, ServerMachine)
    for phase in spread(record_of(at).phases("server", at), 6):
        for event in received(kind, at):
            machine.step(phase, event)  # type: ignore[arg-type]
            if at == "Ended":
                assert isinstance(phase, server_phases.Ended)
                told = kind in {"Join", "JoinRun"} and event.sender not in {SERVER, "nobody"}
                again = (Send(event.sender, Place(-1), phase.goodbye),) if told else ()
                assert machine.step(phase, event) == (phase, again)
                continue
            after, effects = machine._from_network(phase, event)  # type: ignore[arg-type]
            if kind not in SERVER_DUE[at] or event.sender in {SERVER, "nobody"}:
                assert [type(effect) for effect in effects] == [Reject]
            if any(isinstance(effect, Reject) for effect in effects) and len(effects) == 1:
                # A complaint that is heeded, or one wrong share of many, is reported and changes the phase.
                assert unchanged(phase, after) or kind in {"Complaint", "Release"}


@pytest.mark.parametrize("side", ["party", "server"])
def test_events_that_are_no_messages_never_raise(side: str) -> None:
    record = recorded()
    node = record.node(side)
    for at in PARTY_PHASES if side == "party" else SERVER_PHASES:
        for phase in spread(record.phases(side, at), 6):
            for event in (
                Trained(1e6, 7, 0, None, "no such round"),
                Evaluated(1e6, 7, 0.5, 1.0),
                Consulted(1e6, 7, None, "no such round"),
                PresenceHint(1e6, PartyId("p03")),
                PresenceHint(1e6, PartyId("nobody")),
            ):
                after, effects = node.machine.step(phase, event)
                if side == "party":
                    assert after is phase
                    assert effects == ()


@pytest.mark.parametrize("at", SERVER_PHASES)
def test_the_server_never_asks_to_be_woken_in_the_past(at: str) -> None:
    record = recorded()
    machine = record.world.server.machine
    for phase in spread(record.phases("server", at), 12):
        _, effects = machine.step(phase, DeadlinePassed(0.0))
        for effect in effects:
            if isinstance(effect, WakeAt) and effect.when is not None:
                assert effect.when > 0.0
