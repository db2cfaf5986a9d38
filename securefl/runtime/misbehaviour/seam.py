"""Effect seam, with faults that only a shell can commit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from securefl.base.ids import PartyId
from securefl.protocol import kernel, messages
from securefl.protocol.round import RunEffect


@dataclass(frozen=True, slots=True)
class Crash:
    """Effect that kills this process with SIGKILL after a flush of earlier frames."""


@dataclass(frozen=True, slots=True)
class SendRaw:
    """Effect that publishes bytes on the topic of frames to ``to``."""

    to: PartyId
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResendLast:
    """Effect that publishes this process's last ``count`` frames again, byte for byte."""

    count: int


@dataclass(frozen=True, slots=True)
class Presence:
    """Effect that publishes the broker's notice of a broken connection, or presence again."""

    present: bool


Fault: TypeAlias = Crash | SendRaw | ResendLast | Presence


Action: TypeAlias = RunEffect | Fault


class EffectSeam(Protocol):
    """Function that the shell applies after each machine step, before signing. It may keep state."""

    def __call__(
        self, event: kernel.Event[messages.AnyMessage], before: object, effects: tuple[Action, ...], /
    ) -> tuple[Action, ...]:
        """Return the effects to perform.

        ``effects`` are the machine's, or the previous seam's. ``before`` is the phase before the event: an
        attacker knows its process's state.
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
