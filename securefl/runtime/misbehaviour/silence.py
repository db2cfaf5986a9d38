"""Dropout: a party that stops sending at a given step of a round, or dies there.

The honest machine inside continues; its later messages are withheld. The seam publishes the broker's notice
of a broken connection, unless ``announced`` is False: then the others have only their deadlines.
"""

from securefl import scenario
from securefl.base.ids import SERVER
from securefl.protocol import kernel, messages
from securefl.protocol.round import ClusterKey, SharesReleased
from securefl.runtime.misbehaviour import seam

_STAGES: dict[type[object], int] = {
    messages.KeyAdvert: 1,
    messages.ShareBoxes: 2,
    messages.MaskedInput: 3,
    messages.Receipt: 3,
    messages.VectorReceipt: 3,
    messages.Endorse: 4,
    messages.Release: 4,
    messages.Attest: 5,
}
_LAST_STAGE: dict[scenario.Phase, int] = {
    "before-keys": 0,
    "after-keys": 1,
    "after-shares": 2,
    "after-masked-input": 3,
    "after-freeze": 3,
    "after-release": 4,
}
_COMPLETES: dict[scenario.Phase, tuple[type[object], ...]] = {
    "before-keys": (),
    "after-keys": (messages.KeyAdvert,),
    "after-shares": (messages.ShareBoxes,),
    "after-masked-input": (messages.Receipt,),
    "after-freeze": (),
    "after-release": (),
}
"""Messages that each instance must have sent before silence begins."""


class DropsOut:
    """Seam of one ``drop`` (back in the next round) or ``kill`` (never back).

    Messages of a step later than ``phase`` are withheld in all reclusterings, which progress at different
    speeds. A party that never reaches the step falls silent at the freeze.
    """

    def __init__(self, behaviour: scenario.Drop | scenario.Kill) -> None:
        self._behaviour = behaviour
        self._phase: scenario.Phase = behaviour.phase
        self._silent_in: int | None = None
        self._round = -1
        self._instances: set[ClusterKey] = set()
        self._complete: set[ClusterKey] = set()

    def __call__(
        self, event: kernel.Event[messages.AnyMessage], _before: object, effects: tuple[seam.Action, ...]
    ) -> tuple[seam.Action, ...]:
        """Withhold effects after the dropout."""
        if self._silent_in is not None:
            if not _starts_round_after(self._silent_in, event):
                return _mute(effects)
            self._silent_in = None
            effects = (*self._announce(present=True), *effects)
        freeze = _accepted_freeze(event, effects)
        if freeze is not None and self._phase != "after-release" and self._behaviour.acts(freeze.round):
            return (*self._fall_silent(freeze.round), *_mute(effects))
        return self._until_the_step(effects)

    def _until_the_step(self, effects: tuple[seam.Action, ...]) -> tuple[seam.Action, ...]:
        kept: list[seam.Action] = []
        for position, effect in enumerate(effects):
            stage = _STAGES.get(type(effect.message)) if isinstance(effect, kernel.Send) else None
            if (
                not isinstance(effect, kernel.Send)
                or stage is None
                or not self._behaviour.acts(effect.place.round)
            ):
                kept.append(effect)
                continue
            self._note(effect)
            if self._phase == "before-keys":
                return (*kept, *self._fall_silent(effect.place.round), *_mute(effects[position:]))
            if stage <= _LAST_STAGE[self._phase]:
                kept.append(effect)
            if self._phase == "after-release" and isinstance(effect.message, messages.Release):
                return (*kept, *self._fall_silent(effect.place.round), *_mute(effects[position + 1 :]))
        if self._instances and self._complete == self._instances:
            kept += self._fall_silent(self._round)
        return tuple(kept)

    def _note(self, send: kernel.Send[messages.AnyMessage]) -> None:
        """Track this party's instances; a retry makes one incomplete again."""
        if send.place.round != self._round:
            self._round = send.place.round
            self._instances, self._complete = set(), set()
        key = (send.place.reclustering, send.place.cluster)
        if isinstance(send.message, messages.KeyAdvert):
            self._instances.add(key)
            self._complete.discard(key)
        if isinstance(send.message, _COMPLETES[self._phase]):
            self._complete.add(key)

    def _fall_silent(self, round_: int) -> tuple[seam.Action, ...]:
        self._silent_in = round_
        self._instances, self._complete = set(), set()
        return (
            (seam.Crash(),) if isinstance(self._behaviour, scenario.Kill) else self._announce(present=False)
        )

    def _announce(self, *, present: bool) -> tuple[seam.Action, ...]:
        plain = isinstance(self._behaviour, scenario.Drop) and not self._behaviour.announced
        return () if plain else (seam.Presence(present),)


def _starts_round_after(round_: int, event: kernel.Event[messages.AnyMessage]) -> bool:
    return (
        isinstance(event, kernel.Received)
        and event.sender == SERVER
        and isinstance(event.message, messages.ModelAnnounce)
        and event.place.round > round_
    )


def _accepted_freeze(
    event: kernel.Event[messages.AnyMessage], effects: tuple[seam.Action, ...]
) -> kernel.Place | None:
    refused = any(isinstance(effect, kernel.Reject) for effect in effects)
    if refused or not isinstance(event, kernel.Received) or not isinstance(event.message, messages.Freeze):
        return None
    return event.place


def _mute(effects: tuple[seam.Action, ...]) -> tuple[seam.Action, ...]:
    """Drop sent messages and the report of released shares: none were released."""
    return tuple(
        effect
        for effect in effects
        if not isinstance(effect, kernel.Send | seam.SendRaw | seam.ResendLast)
        and not (isinstance(effect, kernel.Report) and isinstance(effect.item, SharesReleased))
    )
