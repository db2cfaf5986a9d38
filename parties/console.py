"""What the programs say on a terminal: news in plain lines, failures in one line with their exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from securefl.errors import ConfigError, RunAbortedError, SecureflError
from securefl.kernel.effects import Aborted, Finished
from securefl.report.witness import Ending, Fact, News, Refusal, Remark, Traffic
from securefl.rounds.reports import RoundDone, SatOut, SharesReleased

EXIT_EXPECTED = 0
"""The run ended as the scenario expects."""
EXIT_UNEXPECTED = 1
"""The run ended, but not as its ``[[expect]]`` entries say."""
EXIT_REFUSED = 2
"""The configuration was refused before anything ran."""
EXIT_ABORTED = 3
"""The run could not be finished. What was written stays."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors on purpose into one line on stderr and an exit code."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        yield
    except ConfigError as error:
        console.print("[bold red]refused[/]", error, markup=True)
        raise typer.Exit(EXIT_REFUSED) from None
    except SecureflError as error:
        console.print("[bold red]aborted[/]", error, markup=True)
        raise typer.Exit(EXIT_ABORTED) from None
    except KeyboardInterrupt:
        console.print("[bold red]aborted[/] by Ctrl-C; what was written stays")
        raise typer.Exit(EXIT_ABORTED) from None


def plain_news(name: str) -> Callable[[News], None]:
    """Return a printer of one plain line per notable piece of news of a single process."""
    console = Console(highlight=False)

    def show(news: News) -> None:
        match news:
            case Refusal():
                console.print(f"{name}: refused {news.culprit}: {news.reason}")
            case Fact(item=RoundDone() as done):
                console.print(
                    f"{name}: round {done.round}: accuracy {done.accuracy:.4f},"
                    f" {len(done.survivors)} of {len(done.participants)} counted"
                )
            case Fact(item=SatOut() as sat):
                console.print(f"{name}: sits out round {sat.round}: {sat.reason}")
            case Fact(item=SharesReleased() as released):
                console.print(f"{name}: round {released.round}: counted, shares released")
            case Remark(text=text):
                console.print(f"{name}: {text}")
            case Fact() | Traffic() | Ending():
                pass

    return show


def finish(outcome: Finished | Aborted) -> None:
    """Say how a single process ended and exit accordingly."""
    if isinstance(outcome, Aborted):
        raise RunAbortedError(outcome.reason)
    Console(highlight=False).print(f"done: {outcome.reason}")
