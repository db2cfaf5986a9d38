"""Presence: messages and reports of a machine about its own connection (ADR 0032)."""

from typing import Final

from securefl.base.ids import SERVER, PartyId
from securefl.protocol import kernel, messages
from securefl.protocol.round.shared import reports

FIRST: Final = messages.Here(connection=1, kept=False)


def lost_effects() -> reports.Effects:
    """Report that the broker is lost."""
    return (kernel.Report(reports.ConnectionLost()),)


def back_effects(event: kernel.Online, to: PartyId) -> reports.Effects:
    """Report that the broker is back, and notify ``to``."""
    here = messages.Here(connection=event.connection, kept=event.kept)
    return (
        kernel.Report(reports.ConnectionBack(event.connection, event.kept)),
        kernel.Send(to, kernel.Place(-1), here),
    )


def on_connection(event: kernel.Offline | kernel.Online, wake: float) -> reports.Effects:
    """Handle a change of connection of a process that only waits for the server, with alarms only online."""
    if isinstance(event, kernel.Offline):
        return (*lost_effects(), kernel.WakeAt(None))
    return (*back_effects(event, SERVER), kernel.WakeAt(wake))
