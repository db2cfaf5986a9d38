"""Presence: messages and reports of every machine about its own connection (ADR 0032)."""

from typing import Final

from securefl.base.ids import SERVER, PartyId
from securefl.protocol import kernel, messages
from securefl.protocol.round.shared import reports

FIRST: Final = messages.Here(connection=1, kept=False)
"""Said as a machine starts, when its first connection stands."""


def lost() -> reports.Effects:
    """Report that the broker is lost."""
    return (kernel.Report(reports.ConnectionLost()),)


def back(event: kernel.Online, to: PartyId) -> reports.Effects:
    """Report that the broker is there again, and say so to whom it concerns."""
    here = messages.Here(connection=event.connection, kept=event.kept)
    return (
        kernel.Report(reports.ConnectionBack(event.connection, event.kept)),
        kernel.Send(to, kernel.Place(-1), here),
    )


def linked(event: kernel.Offline | kernel.Online, wake: float) -> reports.Effects:
    """Do what a process does that only waits for the server: offline, its patience does not run.

    Args:
        event: a change of its connection.
        wake: when to be woken once it is online.
    """
    if isinstance(event, kernel.Offline):
        return (*lost(), kernel.WakeAt(None))
    return (*back(event, SERVER), kernel.WakeAt(wake))
