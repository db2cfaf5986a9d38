"""A server that shows different models to different parties."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from securefl import scenario
from securefl.base.ids import EVERYONE, PartyId
from securefl.protocol import kernel, messages
from securefl.protocol.round import model_digest
from securefl.runtime.misbehaviour import seam


class SplitsModel:
    """Gives one party a model of its own, so that its update would stand out in its cluster's sum.

    The lie is consistent as far as it can be: the victim is invited with the digest of what it got, and its
    hello is announced to it among the others. There it shows: every hello names the model it was said for.

    Source: Pasquini, Francati and Ateniese 2022 (arXiv 2111.07380), which eludes secure sums that leave the
    model out of the masks.
    """

    def __init__(self, behaviour: scenario.Behaviour) -> None:
        self._behaviour = behaviour
        self._parties: set[PartyId] = set()
        self._false: messages.ModelAnnounce | None = None
        self._hello: bytes = b""

    def __call__(
        self, event: kernel.Event[messages.AnyMessage], _before: object, effects: tuple[seam.Action, ...]
    ) -> tuple[seam.Action, ...]:
        """Say to the victim something else than to everybody."""
        if isinstance(event, kernel.Received):
            self._parties.add(event.sender)
            if isinstance(event.message, messages.Hello) and event.sender == self._victim:
                self._hello = event.signed
        changed: list[seam.Action] = []
        for effect in effects:
            if (
                isinstance(effect, kernel.Send)
                and effect.to == EVERYONE
                and seam.acts(self._behaviour, effect.place.round)
            ):
                changed += self._split(effect)
            else:
                changed.append(effect)
        return tuple(changed)

    @property
    def _victim(self) -> PartyId | None:
        return min(self._parties, default=None)

    def _split(self, send: kernel.Send[messages.AnyMessage]) -> list[seam.Action]:
        false = self._lie(send.message)
        if false is None:
            return [send]
        return [
            kernel.Send(party, send.place, false if party == self._victim else send.message)
            for party in sorted(self._parties)
        ]

    def _lie(self, message: messages.AnyMessage) -> messages.AnyMessage | None:
        match message:
            case messages.ModelAnnounce():
                self._false = messages.ModelAnnounce(params=_negated(message.params))
                return self._false
            case messages.Invite() if self._false is not None:
                return replace(message, model_digest=model_digest(_vector(self._false.params)))
            case messages.Announce() if self._hello and self._hello not in message.hellos:
                return replace(message, hellos=(*message.hellos, self._hello))
            case _:
                return None


def _vector(params: bytes) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.frombuffer(params, dtype="<f4").astype(np.float32)


def _negated(params: bytes) -> bytes:
    """Return another model of the same size; its last parameter moves, too, where all are 0."""
    vector = -_vector(params)
    vector[-1] += 1
    return vector.astype("<f4", copy=False).tobytes()
