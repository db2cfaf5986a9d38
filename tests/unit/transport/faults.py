"""A transport that misbehaves according to a list: a network's faults as data, for tests and scenarios.

What happens depends only on the list and on the order of frames, never on time or chance, so that a failing
case can be kept as a literal list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from securefl.base.errors import UsageError
from securefl.runtime.transport.base import (
    ArrivedFrame,
    Carriers,
    Link,
    LostFrame,
    Transport,
    check_filter,
    topic_matches,
)


class FaultKind(Enum):
    """What happens to a frame."""

    DROP = "drop"
    DUPLICATE = "duplicate"
    DELAY = "delay"
    CORRUPT = "corrupt"


class Direction(Enum):
    """Which way a frame goes, seen from the process with the faulty transport."""

    OUT = "out"
    IN = "in"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Of the frames in ``direction`` whose topic fits ``topics`` (an MQTT filter), number ``nth`` is hit,
    counted from 0; None hits them all. ``amount`` is how many copies are added (duplicate), how many later
    frames of the direction overtake this one (delay; it is lost if fewer follow), or the offset of the byte
    whose bits are inverted, modulo the length (corrupt). An empty frame cannot be corrupted and passes.
    """

    kind: FaultKind
    direction: Direction = Direction.OUT
    topics: str = "#"
    nth: int | None = 0
    amount: int = 1

    def __post_init__(self) -> None:
        check_filter(self.topics)
        if self.nth is not None and self.nth < 0:
            raise UsageError(f"nth counts from 0, not {self.nth}")
        if self.amount < (0 if self.kind is FaultKind.CORRUPT else 1):
            raise UsageError(f"the amount of a {self.kind.value} is too small: {self.amount}")


@dataclass(slots=True)
class _Lane:
    """The faults of one direction, and the frames they hold back."""

    faults: list[Fault]
    seen: dict[int, int] = field(default_factory=dict)
    held: list[tuple[int, ArrivedFrame]] = field(default_factory=list)

    def pass_on(self, frame: ArrivedFrame) -> list[ArrivedFrame]:
        """What leaves the lane when ``frame`` enters it, in order."""
        copies, delay = 1, 0
        for index, fault in enumerate(self.faults):
            if not topic_matches(fault.topics, frame.topic):
                continue
            number = self.seen.get(index, 0)
            self.seen[index] = number + 1
            if fault.nth not in {None, number}:
                continue
            match fault.kind:
                case FaultKind.DROP:
                    copies = 0
                case FaultKind.DUPLICATE:
                    copies += fault.amount if copies else 0
                case FaultKind.DELAY:
                    delay = max(delay, fault.amount)
                case FaultKind.CORRUPT:
                    frame = ArrivedFrame(frame.topic, _corrupt(frame.payload, fault.amount))
        due = [one for left, one in self.held if left <= 1]
        self.held = [(left - 1, one) for left, one in self.held if left > 1]
        if delay:
            self.held += [(delay, frame)] * copies
            return due
        return [frame] * copies + due


class FaultyTransport:
    """Wraps a transport; a dropped or delayed ``publish`` reports success, as a lying broker would."""

    def __init__(self, inner: Transport, faults: Iterable[Fault]) -> None:
        listed = tuple(faults)
        self._inner = inner
        self._out = _Lane([one for one in listed if one.direction is Direction.OUT])
        self._in = _Lane([one for one in listed if one.direction is Direction.IN])
        self._ready: deque[ArrivedFrame] = deque()

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish what the faults leave of this frame, and the delayed frames whose turn it is."""
        for frame in self._out.pass_on(ArrivedFrame(topic, payload)):
            await self._inner.publish(*frame, retain=retain and frame.topic == topic)

    async def receive(self) -> ArrivedFrame:
        """Return the next frame that the faults let through."""
        while not self._ready:
            self._ready.extend(self._in.pass_on(await self._inner.receive()))
        return self._ready.popleft()

    def watch(
        self,
        told: Callable[[Link], None],
        lost: Callable[[bool], Iterable[LostFrame]] = lambda _kept: (),
        carriers: Carriers | None = None,
    ) -> None:
        """As the wrapped transport."""
        self._inner.watch(told, lost, carriers)

    async def close(self) -> None:
        """Close the wrapped transport; frames that are still held back are lost."""
        self._ready.clear()
        await self._inner.close()


def _corrupt(payload: bytes, offset: int) -> bytes:
    if not payload:
        return payload
    spoilt = bytearray(payload)
    spoilt[offset % len(spoilt)] ^= 0xFF
    return bytes(spoilt)
