"""News of a single process on a terminal: plain lines, and how it ended."""

from __future__ import annotations

from collections.abc import Callable

import typer

from securefl.base.errors import EXIT_PAUSED, RunAbortedError, RunHaltedError
from securefl.cli.console import say
from securefl.protocol import kernel
from securefl.protocol.round import (
    AnyReport,
    ConnectionBack,
    ConnectionLost,
    Convicted,
    EpochFollowed,
    EpochLed,
    LoopStoodStill,
    ModelKept,
    NothingLearned,
    QuorumAwaited,
    RoundDone,
    RunPaused,
    SatOut,
    SharesReleased,
    SumsWithheld,
    UpdateEncoded,
)
from securefl.runtime import report

_EVENTS = (
    ConnectionLost
    | ConnectionBack
    | Convicted
    | EpochFollowed
    | EpochLed
    | LoopStoodStill
    | NothingLearned
    | QuorumAwaited
    | RunPaused
    | SumsWithheld
    | UpdateEncoded
)
"""Reports with the line that the display of a run has for them, if they are worth one."""


def _show_event(name: str, item: AnyReport) -> None:
    if (text := report.event_text(item)) is not None:
        say(f"{name}: {text}")


def _own_text(item: ModelKept | SatOut | SharesReleased) -> str:
    """What became of a party's own part."""
    match item:
        case ModelKept():
            return f"the best model is that of round {item.round}, and is written"
        case SatOut():
            return f"sits out round {item.round}: {item.reason}"
        case SharesReleased():
            return f"round {item.round}: counted, shares released"


def plain_news(name: str) -> Callable[[report.News], None]:
    """Return a printer of one plain line per notable piece of news of a single process."""

    def show(news: report.News) -> None:
        match news:
            case report.Refusal():
                say(f"{name}: refused {news.culprit}: {news.reason}")
            case report.Fact(item=RoundDone() as done):
                tested = report.tested_text(done).removesuffix(",")
                counted = f"{len(done.survivors)} of {len(done.participants)} counted"
                say(f"{name}: round {done.round}: {tested}, {counted}")
            case report.Fact(item=item) if isinstance(item, _EVENTS):
                _show_event(name, item)
            case report.Fact(item=(ModelKept() | SatOut() | SharesReleased()) as item):
                say(f"{name}: {_own_text(item)}")
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
