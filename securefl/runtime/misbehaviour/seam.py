"""Effect seam: replacement of an honest machine's effects, with faults that only a shell can commit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from securefl.base.ids import PartyId
from securefl.protocol import kernel, messages
from securefl.protocol.round import RunEffect


@dataclass(frozen=True, slots=True)
class Crash:
    """Effect that kills this process with SIGKILL: nothing is flushed; no later effect is performed.

    Frames sent before it still leave: the shell flushes them.
    """


@dataclass(frozen=True, slots=True)
class SendRaw:
    """Effect that publishes bytes on the topic of frames to ``to``."""

    to: PartyId
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResendLast:
    """Effect that publishes the last ``count`` frames of this process again, byte for byte and in order."""

    count: int


@dataclass(frozen=True, slots=True)
class Presence:
    """Effect that publishes the broker's notice of a broken connection, or announces presence again."""

    present: bool


Fault: TypeAlias = Crash | SendRaw | ResendLast | Presence


Action: TypeAlias = RunEffect | Fault
"""Effects that a shell can perform."""


class EffectSeam(Protocol):
    """Function that the shell applies after each machine step, before signing. It may keep state."""

    def __call__(
        self, event: kernel.Event[messages.AnyMessage], before: object, effects: tuple[Action, ...], /
    ) -> tuple[Action, ...]:
        """Return the effects to perform.

        Args:
            event: the event of the step.
            before: the machine's phase before the event: an attacker knows its own process's state.
            effects: effects of the machine, or of the seam before this one.
        """
        ...


class Chain:
    """Sequence of seams of one process, each applied to the effects of the one before."""

    def __init__(self, seams: Sequence[EffectSeam]) -> None:
        self._seams = tuple(seams)

    def __call__(
        self, event: kernel.Event[messages.AnyMessage], before: object, effects: tuple[Action, ...]
    ) -> tuple[Action, ...]:
        """Apply all seams, in order."""
        for seam in self._seams:
            effects = seam(event, before, effects)
        return effects


def round_of(event: kernel.Event[messages.AnyMessage]) -> int | None:
    """Return the round of an event; None for deadlines and presence hints."""
    match event:
        case kernel.Received():
            return event.place.round
        case kernel.Trained() | kernel.Chosen() | kernel.Evaluated() | kernel.Consulted():
            return event.round
        case _:
            return None
