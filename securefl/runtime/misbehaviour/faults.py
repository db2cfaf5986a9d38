"""Faults that only a shell can commit: effects that no honest machine asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from securefl.base.ids import PartyId


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
