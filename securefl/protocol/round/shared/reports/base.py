"""Base of reports: the hooks by which a report reaches a log, a row and a display."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from securefl.protocol import kernel, messages
from securefl.protocol.round.shared.reports.notes import RoundNotes
from securefl.protocol.round.shared.reports.picture import AnyPicture


@dataclass(frozen=True, slots=True)
class AnyReport:
    """Fact that a machine reports: the server from what came in, a party from what it sent. No secrets.

    A transcript records the fields of a subclass under its name. Its other traces are hooks, all optional.
    """

    def line(self) -> str | None:
        """Return the line in the display of a run; None for no line."""
        return None

    def own_line(self) -> str | None:
        """Return the line in the log of the process that reports it, without the name of the process."""
        return self.line()

    def tally(self) -> Mapping[str, int]:
        """Return numbers for the row of the round and for the summary; those of one name add up."""
        return {}

    def note(self, notes: RoundNotes) -> None:
        """Add to the notes of the round what the row derives from several reports."""

    def show(self, picture: AnyPicture) -> AnyPicture:
        """Return the picture of the display after this report."""
        return picture


RunEffect: TypeAlias = kernel.Effect[messages.AnyMessage, AnyReport]
"""What a machine of a run asks of its shell."""
Effects: TypeAlias = tuple[RunEffect, ...]
"""The same of one step, in order."""
