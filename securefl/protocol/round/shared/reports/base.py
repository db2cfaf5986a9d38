"""Base of reports: hooks to log, row and display."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from securefl.protocol import kernel, messages
from securefl.protocol.round.shared.reports.notes import RoundNotes
from securefl.protocol.round.shared.reports.picture import AnyPicture


@dataclass(frozen=True, slots=True)
class AnyReport:
    """Fact that a machine reports from its messages, without secrets.

    Transcripts record a subclass's fields under its name.
    """

    def line(self) -> str | None:
        """Return the line in the display of a run, or None."""
        return None

    def own_line(self) -> str | None:
        """Return the line in the reporting process's own log, without its name."""
        return self.line()

    def row_numbers(self) -> Mapping[str, int]:
        """Return numbers for round and summary; equal names add up."""
        return {}

    def note(self, notes: RoundNotes) -> None:
        """Add to the round's notes, which combine reports into its row."""

    def show(self, picture: AnyPicture) -> AnyPicture:
        """Return the display's picture after this report."""
        return picture


RunEffect: TypeAlias = kernel.Effect[messages.AnyMessage, AnyReport]
Effects: TypeAlias = tuple[RunEffect, ...]
