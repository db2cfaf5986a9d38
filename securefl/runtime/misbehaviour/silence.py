"""Dropping out: a party that stops talking at a given step of a round, or dies there.

The machine inside goes on as if all were well. What it says after the step does not leave the process. The
broker is made to say that the connection broke, as its last will would, unless the silence is to be plain:
then the others have nothing but their deadlines.
"""

from __future__ import annotations

from securefl.base.ids import SERVER
from securefl.protocol.kernel import Event, Place, Received, Reject, Report, Send
from securefl.protocol.messages import (
    AnyMessage,
    Attest,
    Endorse,
    Freeze,
    KeyAdvert,
    MaskedInput,
    ModelAnnounce,
    Receipt,
    Release,
    ShareBoxes,
    VectorReceipt,
)
from securefl.protocol.round import ClusterKey, SharesReleased
from securefl.runtime.misbehaviour.faults import Crash, Presence, ResendLast, SendRaw
from securefl.runtime.misbehaviour.seam import Action, acts
from securefl.scenario import Drop, Kill, Phase

_STAGES: dict[type[object], int] = {
    KeyAdvert: 1,
    ShareBoxes: 2,
    MaskedInput: 3,
    Receipt: 3,
    VectorReceipt: 3,
    Endorse: 4,
    Release: 4,
    Attest: 5,
}
_LAST_STAGE: dict[Phase, int] = {
    "before-keys": 0,
    "after-keys": 1,
    "after-shares": 2,
    "after-masked-input": 3,
    "after-freeze": 3,
    "after-release": 4,
}
_COMPLETES: dict[Phase, tuple[type[object], ...]] = {
    "before-keys": (),
    "after-keys": (KeyAdvert,),
    "after-shares": (ShareBoxes,),
    "after-masked-input": (Receipt,),
    "after-freeze": (),
    "after-release": (),
}
"""Silence begins when this is out in all of the party's instances."""


class DropsOut:
    """One ``drop`` (back in the next round) or ``kill`` (never back).

    With several reclusterings the instances of a party move at different speeds. What belongs to a later
    step than ``phase`` is withheld in all of them from the start. Whoever was left out of an instance, and so
    never comes to its step there, falls silent at the freeze.
    """

    def __init__(self, behaviour: Drop | Kill) -> None:
        self._behaviour = behaviour
        self._phase: Phase = behaviour.phase
        self._silent_in: int | None = None
        self._round = -1
        self._instances: set[ClusterKey] = set()
        self._complete: set[ClusterKey] = set()

    def __call__(
        self, event: Event[AnyMessage], _before: object, effects: tuple[Action, ...]
    ) -> tuple[Action, ...]:
        """Withhold what comes too late to be said."""
        if self._silent_in is not None:
            if not _starts_round_after(self._silent_in, event):
                return _muted(effects)
            self._silent_in = None
            effects = (*self._announce(present=True), *effects)
        freeze = _accepted_freeze(event, effects)
        if freeze is not None and self._phase != "after-release" and acts(self._behaviour, freeze.round):
            return (*self._fall_silent(freeze.round), *_muted(effects))
        return self._until_the_step(effects)

    def _until_the_step(self, effects: tuple[Action, ...]) -> tuple[Action, ...]:
        said: list[Action] = []
        for position, effect in enumerate(effects):
            stage = _STAGES.get(type(effect.message)) if isinstance(effect, Send) else None
            if not isinstance(effect, Send) or stage is None or not acts(self._behaviour, effect.place.round):
                said.append(effect)
                continue
            self._note(effect)
            if self._phase == "before-keys":
                return (*said, *self._fall_silent(effect.place.round), *_muted(effects[position:]))
            if stage <= _LAST_STAGE[self._phase]:
                said.append(effect)
            if self._phase == "after-release" and isinstance(effect.message, Release):
                return (*said, *self._fall_silent(effect.place.round), *_muted(effects[position + 1 :]))
        if self._instances and self._complete == self._instances:
            said += self._fall_silent(self._round)
        return tuple(said)

    def _note(self, send: Send[AnyMessage]) -> None:
        """Keep count of this party's instances; a retry makes one incomplete again."""
        if send.place.round != self._round:
            self._round = send.place.round
            self._instances, self._complete = set(), set()
        key = (send.place.reclustering, send.place.cluster)
        if isinstance(send.message, KeyAdvert):
            self._instances.add(key)
            self._complete.discard(key)
        if isinstance(send.message, _COMPLETES[self._phase]):
            self._complete.add(key)

    def _fall_silent(self, round_: int) -> tuple[Action, ...]:
        self._silent_in = round_
        self._instances, self._complete = set(), set()
        return (Crash(),) if isinstance(self._behaviour, Kill) else self._announce(present=False)

    def _announce(self, *, present: bool) -> tuple[Action, ...]:
        plain = isinstance(self._behaviour, Drop) and not self._behaviour.announced
        return () if plain else (Presence(present),)


def _starts_round_after(round_: int, event: Event[AnyMessage]) -> bool:
    return (
        isinstance(event, Received)
        and event.sender == SERVER
        and isinstance(event.message, ModelAnnounce)
        and event.place.round > round_
    )


def _accepted_freeze(event: Event[AnyMessage], effects: tuple[Action, ...]) -> Place | None:
    refused = any(isinstance(effect, Reject) for effect in effects)
    if refused or not isinstance(event, Received) or not isinstance(event.message, Freeze):
        return None
    return event.place


def _muted(effects: tuple[Action, ...]) -> tuple[Action, ...]:
    """Leave out what is sent, and the claim that shares were released: they were not."""
    return tuple(
        effect
        for effect in effects
        if not isinstance(effect, Send | SendRaw | ResendLast)
        and not (isinstance(effect, Report) and isinstance(effect.item, SharesReleased))
    )
