"""The state of a run as a display shows it: an immutable picture, redrawn with each report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from securefl.protocol.round import AnyReport, RoundDone, RunPicture
from securefl.runtime.report.events import refusal_text

STEPS: Final = {
    "hello": "hello",
    "reveal": "draw",
    "training": "train and mask",
    "certify": "certify",
    "release": "open",
    "consult": "own data",
    "evaluate": "test",
}
"""Steps of a round in words."""

OPTIONAL: Final = frozenset({"certify", "consult"})
"""Steps that only some runs have."""

_EVENTS: Final = 8


@dataclass(frozen=True, slots=True)
class DisplayState(RunPicture):
    """State of a run, with its plan and its latest events."""

    rounds: int
    """Planned rounds."""
    before: int = field(default=0, kw_only=True)
    """Rounds that ended before a resume: their times are unknown."""
    refusals: int = field(default=0, kw_only=True)
    events: tuple[str, ...] = field(default=(), kw_only=True)
    """The latest, newest last."""

    def after(self, now: float, report: AnyReport) -> DisplayState:
        """The state after a report."""
        state = replace(self, now=now)
        line = report.line()
        if line is not None and not isinstance(report, RoundDone):
            state = state.noting(line)
        return report.show(state)

    def left(self, in_round: float) -> float | None:
        """Seconds until the last planned round has ended, at the pace so far; None before one has ended.

        Args:
            in_round: seconds since the latest round began.
        """
        if self.began is None or self.done == self.before:
            return None
        pace = (self.ended - self.began) / (self.done - self.before)
        return max(0.0, pace * (self.rounds - self.done) - (self.since + in_round - self.ended))

    def noting(self, text: str) -> DisplayState:
        """The state with one more event."""
        return replace(self, events=(*self.events, text)[-_EVENTS:])

    def refusing(self, vantage: str, culprit: str, reason: str) -> DisplayState:
        """The state after a refusal."""
        return replace(self.noting(refusal_text(vantage, culprit, reason)), refusals=self.refusals + 1)
