"""Parties that take part, and bother everybody while they do: garbage and replays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import cycle

from securefl.base.crypto import Identity
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel import Event, Send
from securefl.protocol.messages import AnyMessage
from securefl.protocol.wire import SIGNATURE, Header, seal_frame
from securefl.runtime.misbehaviour.faults import ResendLast, SendRaw
from securefl.runtime.misbehaviour.seam import Action, acts, round_of
from securefl.scenario import Behaviour

_RESENT_FRAMES = 4


class SendsGarbage:
    """Sends bytes that are no message in every step: noise, cut or bloated frames, forged signatures.

    The bytes are fixed by the party's name and the step, so that a run can be repeated; they need not be
    secret.
    """

    def __init__(self, behaviour: Behaviour, me: PartyId) -> None:
        self._behaviour = behaviour
        self._me = me
        self._payloads = self._forever()

    def __call__(
        self, event: Event[AnyMessage], _before: object, effects: tuple[Action, ...]
    ) -> tuple[Action, ...]:
        """Add one piece of garbage."""
        round_ = round_of(event)
        if round_ is None or not acts(self._behaviour, round_):
            return effects
        return (SendRaw(SERVER, next(self._payloads)), *effects)

    def _forever(self) -> Iterator[bytes]:
        # A key that nobody knows of: what it signs is forged, whatever name stands on it.
        stranger = Identity.generate(self._me, InsecureSeededEntropy(0).child("garbage", self._me))
        makers: tuple[Callable[[bytes], bytes], ...] = (
            lambda noise: noise[:1],
            lambda noise: noise,
            lambda noise: noise[:SIGNATURE] + b"\xdd\xff\xff\xff\xff",
            lambda noise: noise[:SIGNATURE] + b"\x91" * 200,
            lambda noise: _forged(self._me, noise, stranger),
            lambda noise: _forged(SERVER, noise, stranger),
            lambda noise: _forged(self._me, noise, stranger)[: SIGNATURE + 20],
        )
        for step, make in enumerate(cycle(makers)):
            yield make(hashlib.shake_256(f"garbage {self._me} {step}".encode()).digest(300))


def _forged(sender: PartyId, noise: bytes, stranger: Identity) -> bytes:
    """Return a well-formed frame in the name of ``sender``, which did not sign it."""
    header = Header("forged", 0, -1, -1, 0, "Hello", sender, SERVER, noise[-8:], 0, 0, 1)
    return seal_frame(header, noise, stranger)


class SendsReplays:
    """Sends again what it sent before: the very frames, and old messages under fresh signatures."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._said: list[Send[AnyMessage]] = []

    def __call__(
        self, event: Event[AnyMessage], _before: object, effects: tuple[Action, ...]
    ) -> tuple[Action, ...]:
        """Add the last frames and the oldest message that was not repeated yet."""
        round_ = round_of(event)
        again: tuple[Action, ...] = ()
        if round_ is not None and acts(self._behaviour, round_):
            again = (ResendLast(_RESENT_FRAMES), *self._said[:1])
            self._said = self._said[1:]
        self._said += [effect for effect in effects if isinstance(effect, Send)]
        return (*effects, *again)
