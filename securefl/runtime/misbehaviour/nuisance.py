"""Garbage and replays by parties that take part."""

import hashlib
from collections.abc import Callable, Iterator
from itertools import cycle

from securefl import scenario
from securefl.base import crypto, entropy
from securefl.base.ids import SERVER, PartyId
from securefl.protocol import kernel, messages, wire
from securefl.runtime.misbehaviour import seam

_RESENT_FRAMES = 4


class SendsGarbage:
    """Seam that sends invalid bytes in every step: noise, cut or bloated frames, forged signatures.

    They derive from the party's name and the step: reproducible, not secret.
    """

    def __init__(self, behaviour: scenario.Behaviour, me: PartyId) -> None:
        self._behaviour = behaviour
        self._me = me
        self._payloads = self._forever()

    def __call__(
        self, event: kernel.Event[messages.AnyMessage], _before: object, effects: tuple[seam.Action, ...]
    ) -> tuple[seam.Action, ...]:
        """Prepend one piece of garbage."""
        round_ = seam.round_of(event)
        if round_ is None or not self._behaviour.acts(round_):
            return effects
        return (seam.SendRaw(SERVER, next(self._payloads)), *effects)

    def _forever(self) -> Iterator[bytes]:
        # An unregistered key: its signatures are forged under any name.
        stranger = crypto.Identity.generate(
            self._me, entropy.InsecureSeededEntropy(0).child("garbage", self._me)
        )
        makers: tuple[Callable[[bytes], bytes], ...] = (
            lambda noise: noise[:1],
            lambda noise: noise,
            lambda noise: noise[: wire.SIGNATURE] + b"\xdd\xff\xff\xff\xff",
            lambda noise: noise[: wire.SIGNATURE] + b"\x91" * 200,
            lambda noise: _forge_frame(self._me, noise, stranger),
            lambda noise: _forge_frame(SERVER, noise, stranger),
            lambda noise: _forge_frame(self._me, noise, stranger)[: wire.SIGNATURE + 20],
        )
        for step, make in enumerate(cycle(makers)):
            yield make(hashlib.shake_256(f"garbage {self._me} {step}".encode()).digest(300))


def _forge_frame(sender: PartyId, noise: bytes, stranger: crypto.Identity) -> bytes:
    """Return a well-formed frame in the name of ``sender``, signed by ``stranger``."""
    header = wire.Header("forged", 0, -1, -1, 0, "Hello", sender, SERVER, noise[-8:], 0, 0, 1)
    return wire.seal_frame(header, noise, stranger)


class SendsReplays:
    """Seam that sends frames again, byte for byte, and old messages under fresh signatures."""

    def __init__(self, behaviour: scenario.Behaviour) -> None:
        self._behaviour = behaviour
        self._said: list[kernel.Send[messages.AnyMessage]] = []

    def __call__(
        self, event: kernel.Event[messages.AnyMessage], _before: object, effects: tuple[seam.Action, ...]
    ) -> tuple[seam.Action, ...]:
        """Append the last frames and the oldest message not yet repeated."""
        round_ = seam.round_of(event)
        again: tuple[seam.Action, ...] = ()
        if round_ is not None and self._behaviour.acts(round_):
            again = (seam.ResendLast(_RESENT_FRAMES), *self._said[:1])
            self._said = self._said[1:]
        self._said += [effect for effect in effects if isinstance(effect, kernel.Send)]
        return (*effects, *again)
