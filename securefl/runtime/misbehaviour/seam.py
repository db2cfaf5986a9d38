"""The effect seam: what a process does instead of what its honest machine asked for.

Faults that only a shell can commit: effects that no honest machine asks for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from securefl.base.ids import PartyId
from securefl.protocol import kernel, messages
from securefl.protocol.round import RunEffect


@dataclass(frozen=True, slots=True)
class Crash:
    """Kill this process with SIGKILL: nothing is flushed, closed or said. No later effect is performed.

    What was sent before it counts as sent: the shell lets frames leave that are on their way.
    """


@dataclass(frozen=True, slots=True)
class SendRaw:
    """Publish bytes where a frame to ``to`` would go."""

    to: PartyId
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResendLast:
    """Publish the last ``count`` frames of this process again, byte for byte and in order."""

    count: int


@dataclass(frozen=True, slots=True)
class Presence:
    """Publish what the broker says when this process's connection breaks, or say again that it stands."""

    present: bool


Fault: TypeAlias = Crash | SendRaw | ResendLast | Presence


Action: TypeAlias = RunEffect | Fault
"""What a shell can perform."""


class EffectSeam(Protocol):
    """Applied by the shell after each machine step, before anything is signed. It may keep state."""

    def __call__(
        self, event: kernel.Event[messages.AnyMessage], before: object, effects: tuple[Action, ...], /
    ) -> tuple[Action, ...]:
        """Return what is really done.

        Args:
            event: what happened.
            before: the machine's phase when it happened: an attacker knows what its own process knows.
            effects: what the machine, or the seam before this one, wants done.
        """
        ...


class Chain:
    """Several seams of one process, each on what the one before it made of the step."""

    def __init__(self, seams: Sequence[EffectSeam]) -> None:
        self._seams = tuple(seams)

    def __call__(
        self, event: kernel.Event[messages.AnyMessage], before: object, effects: tuple[Action, ...]
    ) -> tuple[Action, ...]:
        """Apply all, in order; without any, the process is honest."""
        for seam in self._seams:
            effects = seam(event, before, effects)
        return effects


def round_of(event: kernel.Event[messages.AnyMessage]) -> int | None:
    """Return the round that an event is about; None for deadlines and presence hints."""
    match event:
        case kernel.Received():
            return event.place.round
        case kernel.Trained() | kernel.Chosen() | kernel.Evaluated() | kernel.Consulted():
            return event.round
        case _:
            return None
