"""News of a single process on a terminal: plain lines, and how it ended."""

from __future__ import annotations

from collections.abc import Callable

import typer

from securefl.base.errors import EXIT_PAUSED, RunAbortedError, RunHaltedError
from securefl.cli.console import say
from securefl.protocol import kernel
from securefl.runtime import report


def plain_news(name: str) -> Callable[[report.News], None]:
    """Return a printer of one plain line per notable piece of news of a single process."""

    def show(news: report.News) -> None:
        match news:
            case report.Refusal():
                say(f"{name}: refused {news.culprit}: {news.reason}")
            case report.Fact(item=item) if (line := item.own_line()) is not None:
                say(f"{name}: {line}")
            case report.Remark(text=text):
                say(f"{name}: {text}")
            case report.Waiting():
                say(f"{name}: {news}")
            case report.Fact() | report.Traffic() | report.Ending():
                pass

    return show


def finish(outcome: kernel.Finished | kernel.Aborted) -> None:
    """Say how a single process ended and exit accordingly."""
    if isinstance(outcome, kernel.Aborted) and outcome.resumable:
        say(f"paused: {outcome.reason}; the same command goes on with the run")
        raise typer.Exit(EXIT_PAUSED)
    if isinstance(outcome, kernel.Aborted):
        raise (RunHaltedError if outcome.decide else RunAbortedError)(outcome.reason)
    say(f"done: {outcome.reason}")
