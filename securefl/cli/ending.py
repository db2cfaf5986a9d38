"""Progress of a run on standard output, and how the run ended."""

from __future__ import annotations

from typing import IO

import typer

from securefl.base.errors import EXIT_ABORTED, EXIT_DECIDE, EXIT_PAUSED, RunAbortedError, RunHaltedError
from securefl.runtime import report
from securefl.scenario import Scenario


class ShownRun:
    """A run as a command shows it: ``progress`` during the run, then its summary."""

    def __init__(
        self, scenario: Scenario, stdout: IO[str], *, as_json: bool, name: str = "", explain: bool = False
    ) -> None:
        self._console = report.Terminal(highlight=False, file=stdout)
        self.progress = report.progress_for(
            self._console, as_json=as_json, by=report.sieve(scenario.groups), name=name, explain=explain
        )

    def end(self, summary: report.Summary) -> None:
        """Show how the run ended.

        Raises:
            typer.Exit: the run was paused.
            RunHaltedError: a person must decide.
            RunAbortedError: the run was aborted.
        """
        if isinstance(self.progress, report.JsonProgress):
            self.progress.summary(summary)
        else:
            report.print_summary(self._console, summary)
        if summary.exit_code == EXIT_PAUSED:
            raise typer.Exit(EXIT_PAUSED)
        if summary.exit_code == EXIT_DECIDE:
            raise RunHaltedError(summary.outcome.reason)
        if summary.exit_code == EXIT_ABORTED:
            raise RunAbortedError(summary.outcome.reason)
