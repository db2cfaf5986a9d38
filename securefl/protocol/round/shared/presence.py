"""Presence: messages and reports of every machine about its own connection (ADR 0032)."""

from __future__ import annotations

from typing import Final

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel import Offline, Online, Place, Report, Send, WakeAt
from securefl.protocol.messages import Here
from securefl.protocol.round.shared.reports import ConnectionBack, ConnectionLost, Effects

FIRST: Final = Here(connection=1, kept=False)
"""Said as a machine starts, when its first connection stands."""


def lost() -> Effects:
    """Report that the broker is lost."""
    return (Report(ConnectionLost()),)


def back(event: Online, to: PartyId) -> Effects:
    """Report that the broker is there again, and say so to whom it concerns."""
    here = Here(connection=event.connection, kept=event.kept)
    return (Report(ConnectionBack(event.connection, event.kept)), Send(to, Place(-1), here))


def linked(event: Offline | Online, wake: float) -> Effects:
    """Do what a process does that only waits for the server: offline, its patience does not run.

    Args:
        event: a change of its connection.
        wake: when to be woken once it is online.
    """
    if isinstance(event, Offline):
        return (*lost(), WakeAt(None))
    return (*back(event, SERVER), WakeAt(wake))
