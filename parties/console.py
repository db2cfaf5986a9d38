"""What the programs say on a terminal: news in plain lines, failures in one line with their exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.text import Text

from securefl.errors import EXIT_ABORTED, EXIT_REFUSED, ConfigError, RunAbortedError, SecureflError
from securefl.kernel.effects import Aborted, Finished
from securefl.report.console import Terminal
from securefl.report.events import event_text
from securefl.report.text import printable
from securefl.report.witness import Ending, Fact, News, Refusal, Remark, Traffic, Waiting
from securefl.rounds.reports import (
    ConnectionBack,
    ConnectionLost,
    QuorumAwaited,
    RoundDone,
    SatOut,
    SharesReleased,
)

_LONGEST = 2_000
"""Characters of one line; a Goodbye's reason has at most 1,000."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors on purpose, and those of the machine (disk, files), into one line and an exit code."""
    try:
        yield
    except ConfigError as error:
        _fail("refused", str(error))
        raise typer.Exit(EXIT_REFUSED) from None
    except SecureflError as error:
        _fail("aborted", str(error))
        raise typer.Exit(EXIT_ABORTED) from None
    except OSError as error:
        what = f"{error.filename}: " if error.filename is not None else ""
        _fail("aborted", f"{what}{error.strerror or error}")
        raise typer.Exit(EXIT_ABORTED) from None
    except KeyboardInterrupt as interrupt:
        # A signal that is handled like Ctrl-C says its name.
        _fail("aborted", f"by {str(interrupt) or 'Ctrl-C'}; what was written stays")
        raise typer.Exit(EXIT_ABORTED) from None


def _fail(verdict: str, reason: str) -> None:
    line = Text.assemble((verdict, "bold red"), " ", printable(reason, _LONGEST))
    Terminal(stderr=True, soft_wrap=True).print(line)


def say(text: str) -> None:
    """Print one line as it is: no markup, no control characters, no wrapping."""
    Terminal(soft_wrap=True).print(Text(printable(text, _LONGEST)))


def plain_news(name: str) -> Callable[[News], None]:
    """Return a printer of one plain line per notable piece of news of a single process."""

    def show(news: News) -> None:
        match news:
            case Refusal():
                say(f"{name}: refused {news.culprit}: {news.reason}")
            case Fact(item=RoundDone() as done):
                say(
                    f"{name}: round {done.round}: accuracy {done.accuracy:.4f},"
                    f" {len(done.survivors)} of {len(done.participants)} counted"
                )
            case Fact(item=ConnectionLost() | ConnectionBack() | QuorumAwaited() as item):
                say(f"{name}: {event_text(item)}")
            case Fact(item=SatOut() as sat):
                say(f"{name}: sits out round {sat.round}: {sat.reason}")
            case Fact(item=SharesReleased() as released):
                say(f"{name}: round {released.round}: counted, shares released")
            case Remark(text=text):
                say(f"{name}: {text}")
            case Waiting():
                say(f"{name}: {news}")
            case Fact() | Traffic() | Ending():
                pass

    return show


def finish(outcome: Finished | Aborted) -> None:
    """Say how a single process ended and exit accordingly."""
    if isinstance(outcome, Aborted):
        raise RunAbortedError(outcome.reason)
    say(f"done: {outcome.reason}")
