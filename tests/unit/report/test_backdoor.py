"""A backdoor's success is shown wherever accuracy is, and nowhere without a backdoor."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from securefl.protocol.round.shared.reports import RoundDone
from securefl.runtime.report.live import DisplayState, draw
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.outcome import RunEnd
from securefl.runtime.report.present import print_summary
from securefl.runtime.report.summary import Summary, summarise
from tests.unit.report.runs import eventful


def summary(success: float | None) -> Summary:
    plan, log = eventful()
    metrics = RunMetrics(plan)
    for now, report in log:
        told = replace(report, backdoor_success=success) if isinstance(report, RoundDone) else report
        metrics.on_report(now, told)
    metrics.on_end(RunEnd(reason="done"))
    return summarise(run="r1", scenario=plan, metrics=metrics, insecure=False, seconds=1.0, files={})


def done(success: float | None) -> RoundDone:
    _, log = eventful()
    last = [report for _, report in log if isinstance(report, RoundDone)][-1]
    return replace(last, backdoor_success=success)


def printed(what: object) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=False, color_system=None, width=100)
    if isinstance(what, Summary):
        print_summary(console, what)
    elif isinstance(what, DisplayState):
        console.print(draw(what, 1.0, 2.0, width=80, ascii_only=True))
    return stream.getvalue()


def test_the_summary_tells_it_in_words_and_numbers() -> None:
    attacked = summary(0.75)
    assert "75.0 % of the test images of other classes are classified as the backdoor's class" in printed(
        attacked
    )
    content = attacked.to_json()
    assert isinstance(content["outcome"], dict)
    assert content["outcome"]["backdoor_success"] == 0.75


def test_the_display_and_the_log_tell_it() -> None:
    assert "75.0 % of patched test images" in printed(DisplayState(rounds=4).after(0.0, done(0.75)))
    assert " backdoor 75.0 %," in done(0.75).line()


@pytest.mark.parametrize(
    "text", [printed(summary(None)), printed(DisplayState(rounds=4).after(0.0, done(None)))]
)
def test_without_a_backdoor_nobody_speaks_of_one(text: str) -> None:
    assert "accuracy" in text.lower()
    assert "backdoor" not in text
    assert "backdoor_success" not in str(summary(None).to_json())
