"""Progress for programs: nothing at all, or a line a round."""

from __future__ import annotations

import sys

from securefl.base.header import RunHeader
from securefl.protocol.round import AnyReport
from securefl.runtime.report import PlainProgress


class NoProgress:
    """Progress that nobody hears."""

    def start(self, header: RunHeader) -> None:
        """See :class:`securefl.runtime.report.progress.Progress`."""

    def on_report(self, now: float, report: AnyReport) -> None:
        """See :class:`securefl.runtime.report.progress.Progress`."""

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """See :class:`securefl.runtime.report.progress.Progress`."""

    def note(self, text: str) -> None:
        """See :class:`securefl.runtime.report.progress.Progress`."""

    def finish(self) -> None:
        """See :class:`securefl.runtime.report.progress.Progress`."""


class RoundLines(PlainProgress):
    """Lines on standard output, as of a command whose output is no terminal."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
