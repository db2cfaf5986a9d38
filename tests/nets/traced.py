"""A federation in memory whose effects are written down, one line each.

A line names the process, the effect and its fields. Effects of the server and of ``p00`` have a digest for
each field, so that a comparison names the field that differs; those of other parties have one digest.
Checkpoints have one for each part, of their encoding with sets and maps in order: the order of names in a set
changes from process to process. Of numbers in reports, such as norms, 12 digits count: the last bits of a sum
of squares depend on the processor.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Set
from typing import Any
from unittest.mock import patch

import msgspec

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Keep, Report, Send, WakeAt
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.shared.reports import RunEffect
from securefl.runtime.process import checkpoint
from tests.nets.digests import SHORT, Digester
from tests.simulation.world import Node, World

_encode = msgspec.msgpack.Encoder(enc_hook=checkpoint._plain).encode
_HEAD = len(checkpoint._HEAD) + hashlib.sha256().digest_size
WATCHED = frozenset({SERVER, PartyId("p00")})
"""Processes whose effects have a digest for each field; effects of the others have one in all."""


class _Ordered:
    """The encoder of checkpoints, with the members of sets and maps in order."""

    def encode(self, value: object) -> bytes:
        """Return the MessagePack encoding of ``value``."""
        return _encode(_ordered(value))


def _ordered(value: Any) -> Any:
    """Return ``value`` with rows in place of sets, and maps in the order of their keys."""
    match value:
        case Mapping():
            return {key: _ordered(value[key]) for key in sorted(value, key=_encode)}
        case Set():
            return sorted(map(_ordered, value), key=_encode)
        case tuple() | list():
            return [_ordered(one) for one in value]
        case _ if dataclasses.is_dataclass(value):
            return {one.name: _ordered(getattr(value, one.name)) for one in dataclasses.fields(value)}
        case _:
            return value


class Traced(World):
    """A federation whose processes' effects are written down in the order in which they are performed."""

    digester = Digester()
    reported = Digester(12)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.lines: list[str] = []
        self._wakes: dict[str, float | None] = {}
        self._whole = hashlib.sha256()

    def trace(self) -> list[str]:
        """Return a line for each effect of the run, and one that pins all bits of frames and models."""
        self.run()
        models = hashlib.sha256(b"".join(model.tobytes() for _, model in sorted(self.models.items())))
        frames = hashlib.sha256(b"".join(hashlib.sha256(one).digest() for one in self.frames))
        whole = f"frames={len(self.frames)}:{frames.hexdigest()} models={models.hexdigest()}"
        return [*self.lines, f"run Whole {whole} effects={self._whole.hexdigest()}"]

    def _perform(self, node: Node, effects: tuple[RunEffect, ...]) -> None:
        for effect in effects:
            if not node.alive:
                return
            sent = len(self.frames)
            super()._perform(node, (effect,))
            self._write(node, effect, self.frames[sent:])

    def _write(self, node: Node, effect: RunEffect, frames: list[bytes]) -> None:
        if isinstance(effect, WakeAt):
            if self._wakes.get(node.name) == effect.when:
                return
            self._wakes[node.name] = effect.when
        words = [node.name, *self._words(node, effect, frames)]
        self._whole.update(words[-1].encode())
        if not isinstance(effect, Keep):
            digester = self.reported if isinstance(effect, Report) else self.digester
            self._whole.update(digester.digest(effect, 64).encode())
        self.lines.append(" ".join(words))

    def _words(self, node: Node, effect: RunEffect, frames: list[bytes]) -> Iterator[str]:
        yield type(effect).__name__
        match effect:
            case Send():
                yield from self._sent(effect, frames, whole=node.name in WATCHED)
            case Report(item=item):
                yield type(item).__name__
                whole = node.name in WATCHED
                yield from _pairs(self.reported, item) if whole else (f"digest={self.reported.digest(item)}",)
            case Keep():
                yield from self._kept(effect)
            case WakeAt():
                yield f"when={effect.when}"
            case _ if node.name in WATCHED:
                yield from _pairs(self.digester, effect)
            case _:
                yield f"digest={self.digester.digest(effect)}"

    def _sent(self, effect: Send[AnyMessage], frames: list[bytes], *, whole: bool) -> Iterator[str]:
        place = effect.place
        yield type(effect.message).__name__
        yield f"round={place.round}"
        if whole:
            yield f"place={place.reclustering}.{place.cluster}.{place.attempt}"
            yield f"to={effect.to}"
            yield from _pairs(self.digester, effect.message)
        yield f"frames={hashlib.sha256(b''.join(frames)).hexdigest()[:SHORT]}"

    def _kept(self, effect: Keep) -> Iterator[str]:
        state: Any = effect.state
        with patch.object(checkpoint, "_encoder", _Ordered()):
            content = checkpoint.checkpoint_bytes(self.plan, state)
        file = msgspec.msgpack.decode(content[_HEAD:])
        yield f"round={state.standing.round}"
        for name, part in file["parts"].items():
            yield f"{name}={self._part(part)}"
        rest = {name: value for name, value in file.items() if name != "parts"}
        whole = (
            content if self.digester.digits is None else self.digester.digest([rest, sorted(file["parts"])])
        )
        yield f"size={len(content)}"
        yield f"file={self.digester.digest(whole)}"

    def _part(self, part: bytes) -> str:
        value = msgspec.msgpack.decode(part)
        if value is None or isinstance(value, int | float):
            return self.digester.text(value)
        if self.digester.digits is None:
            return hashlib.sha256(part).hexdigest()[:SHORT]
        return self.digester.digest(value)


class Rounded(Traced):
    """The same for runs that compute p-values: of floats in reports and checkpoints nine digits count."""

    digester = Digester(9, arrays=True)
    reported = digester


def _pairs(digester: Digester, value: object) -> Iterator[str]:
    return (f"{name}={text}" for name, text in digester.fields(value))
