"""Progress of a run or a single process on standard output, and its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

import typer

from securefl.base.errors import (
    EXIT_ABORTED,
    EXIT_DECIDE,
    EXIT_PAUSED,
    EXIT_UNEXPECTED,
    RunAbortedError,
    RunHaltedError,
)
from securefl.cli.console import say
from securefl.protocol import kernel
from securefl.protocol.round import NothingLearned, SharesReleased, strip_late_prefix
from securefl.runtime import report
from securefl.scenario import Scenario


class ShownRun:
    """Display of a run: ``progress``, then the summary."""

    def __init__(
        self, scenario: Scenario, stdout: IO[str], *, as_json: bool, name: str = "", explain: bool = False
    ) -> None:
        self._console = report.Terminal(highlight=False, file=stdout)
        self.progress = report.progress_for(
            self._console, as_json=as_json, by=report.filter_name(scenario.groups), name=name, explain=explain
        )

    def end(self, summary: report.Summary) -> None:
        """Show the summary.

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


def plain_news(name: str) -> Callable[[report.News], None]:
    """Return a function that prints a line for each notable event of a process."""

    def show(news: report.News) -> None:
        match news:
            case report.Refusal() if (late := strip_late_prefix(news.reason)) is not None:
                # Ordinary after a restart: no accusation.
                say(f"{name}: ignored a late message of {news.culprit}: {late}")
            case report.Refusal():
                say(f"{name}: rejected a message of {news.culprit}: {news.reason}")
            case report.Fact(item=item) if (line := item.own_line()) is not None:
                say(f"{name}: {line}")
            case report.Remark(text=text):
                say(f"{name}: {text}")
            case report.Waiting():
                say(f"{name}: {news}")
            case report.Fact() | report.Traffic() | report.Ending():
                pass

    return show


class PartyNews:
    """Printer of a party's news; it counts the rounds to which the party added nothing."""

    def __init__(self, name: str) -> None:
        self._show = plain_news(name)
        self._failed: set[int] = set()
        self._counted: set[int] = set()

    def __call__(self, news: report.News) -> None:
        """Print a line if there is one."""
        match news:
            case report.Fact(item=NothingLearned(round=number)):
                self._failed.add(number)
            case report.Fact(item=SharesReleased(round=number)):
                self._counted.add(number)
            case _:
                pass
        self._show(news)

    def finish(self, outcome: kernel.Finished | kernel.Aborted) -> None:
        """Print the end of the party; exit with its code, 1 if all its trainings failed."""
        finish(outcome)
        if self._counted and self._counted <= self._failed:
            many = len(self._counted)
            say(f"training failed here in all {many} rounds: the model has nothing of this party")
            raise typer.Exit(EXIT_UNEXPECTED)


def finish(outcome: kernel.Finished | kernel.Aborted) -> None:
    """Print the end of a process; exit with its code."""
    if isinstance(outcome, kernel.Aborted) and outcome.resumable:
        say(f"paused: {outcome.reason}; give the same command to resume")
        raise typer.Exit(EXIT_PAUSED)
    if isinstance(outcome, kernel.Aborted):
        raise (RunHaltedError if outcome.decide else RunAbortedError)(outcome.reason)
    say(f"done: {outcome.reason}")
