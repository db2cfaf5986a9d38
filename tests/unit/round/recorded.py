"""Messages of a run and the phases that took them, to be taken once more with a change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Reject
from securefl.protocol.kernel.events import Place, Received
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.wire.outbox import Outbox
from tests.simulation.world import RUN, Node, World


class Taken(NamedTuple):
    """A message as it was taken in the run."""

    node: Node
    phase: Any
    event: Any


class Recorded:
    """All messages of a run that changed something, with the phases that took them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.taken: list[Taken] = []
        world.observers.append(self._observe)
        world.run()

    def _observe(
        self, node: Node, before: object, event: Event[AnyMessage], after: object, _effects: object
    ) -> None:
        if isinstance(event, Received) and after is not before:
            self.taken.append(Taken(node, before, event))

    def first(self, phase: type, message: type, **place: int) -> Taken:
        """The first message of a kind at a phase of a kind, at a party unless it is the server's phase."""
        return next(
            one
            for one in self.taken
            if isinstance(one.phase, phase)
            and isinstance(one.event.message, message)
            and all(getattr(one.event.place, field) == value for field, value in place.items())
        )

    def signed(self, sender: PartyId, place: Place, message: AnyMessage) -> bytes:
        """A frame to the server as ``sender`` makes it."""
        outbox = Outbox(RUN, self.world.identities[sender], InsecureSeededEntropy(5))
        (frame,) = outbox.frames(SERVER, place, message)
        return frame


def refused(one: Taken, **changes: object) -> str:
    """The reason why the changed message is refused; the phase is as it was."""
    event = replace(one.event, **changes)
    _, effects = one.node.machine.step(one.phase, one.event)
    assert not any(isinstance(effect, Reject) for effect in effects)
    after, effects = one.node.machine.step(one.phase, event)
    (effect,) = (effect for effect in effects if isinstance(effect, Reject))
    if one.node.name != SERVER:
        assert after is one.phase
        assert effect.culprit == SERVER
    return effect.reason


def changed(one: Taken, **fields: object) -> AnyMessage:
    message: AnyMessage = msgspec.structs.replace(one.event.message, **fields)
    return message
