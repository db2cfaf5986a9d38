"""News of a single process on a terminal: plain lines, and how it ended."""

from __future__ import annotations

from collections.abc import Callable

from securefl.base.errors import RunAbortedError
from securefl.cli.console import say
from securefl.protocol.kernel import Aborted, Finished
from securefl.protocol.round import (
    ConnectionBack,
    ConnectionLost,
    NothingLearned,
    QuorumAwaited,
    RoundDone,
    SatOut,
    SharesReleased,
)
from securefl.runtime.report import Ending, Fact, News, Refusal, Remark, Traffic, Waiting, event_text


def plain_news(name: str) -> Callable[[News], None]:
    """Return a printer of one plain line per notable piece of news of a single process."""

    def show(news: News) -> None:
        match news:
            case Refusal():
                say(f"{name}: refused {news.culprit}: {news.reason}")
            case Fact(item=RoundDone() as done):
                tested = "not tested" if done.accuracy is None else f"accuracy {done.accuracy:.4f}"
                counted = f"{len(done.survivors)} of {len(done.participants)} counted"
                say(f"{name}: round {done.round}: {tested}, {counted}")
            case Fact(item=ConnectionLost() | ConnectionBack() | QuorumAwaited() | NothingLearned() as item):
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
