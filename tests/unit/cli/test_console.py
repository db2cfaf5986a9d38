"""What comes from a peer is shown as it is: no markup, no control characters, one line."""

from __future__ import annotations

import pytest
import typer

from securefl.base.errors import ConfigError, RunAbortedError, UsageError
from securefl.cli.console import one_line_errors, say
from securefl.cli.run_end import PartyNews, finish, plain_news
from securefl.protocol.kernel.effects import Aborted, Finished
from securefl.protocol.round.shared.reports import NothingLearned, SatOut, SharesReleased
from securefl.runtime.report.witness import Fact, News, Refusal, Remark, Traffic
from tests.unit.cli.programs import ANSI

NASTY = "[bold]x[/] [/nonsense] \x1b[31mred\x1b]0;title\x07\nsecond line\r\u202eback"
SHOWN = "[bold]x[/] [/nonsense] ?[31mred?]0;title??second line??back"


@pytest.mark.parametrize(
    "news",
    [
        Refusal(0.0, "p01", NASTY),
        Refusal(0.0, NASTY, "reason"),
        Fact(0.0, SatOut(3, NASTY)),
        Remark(NASTY),
    ],
)
def test_news_shows_peers_text_as_it_is(news: News, capsys: pytest.CaptureFixture[str]) -> None:
    plain_news("p00")(news)
    out, err = capsys.readouterr()
    assert SHOWN in out
    assert out.count("\n") == 1
    assert err == ""


def test_a_late_message_is_no_accusation(capsys: pytest.CaptureFixture[str]) -> None:
    plain_news("p00")(Refusal(0.0, "p01", "late: meant for the server before it was started again"))
    said = "p00: ignored a late message of p01: meant for the server before it was started again\n"
    assert capsys.readouterr().out == said


def test_news_for_machines_only_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    plain_news("p00")(Traffic())
    assert capsys.readouterr() == ("", "")


def test_a_goodbyes_reason_cannot_paint_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    finish(Finished(NASTY))
    assert capsys.readouterr().out == f"done: {SHOWN}\n"
    with pytest.raises(typer.Exit) as ended, one_line_errors():
        finish(Aborted(NASTY))
    assert ended.value.exit_code == 3
    assert ANSI.sub("", capsys.readouterr().err) == f"aborted {SHOWN}\n"


@pytest.mark.parametrize(
    ("counted", "failed", "code"),
    [((), (), 0), ((0, 1), (), 0), ((0, 1), (1,), 0), ((0, 1), (0, 1), 1), ((1,), (0, 1), 1), ((), (0,), 0)],
)
def test_a_party_whose_trainings_all_failed_ends_with_1(
    counted: tuple[int, ...], failed: tuple[int, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    news = PartyNews("p00")
    for number in failed:
        news(Fact(0.0, NothingLearned(number, 0, "KeyError")))
    for number in counted:
        news(Fact(0.0, SharesReleased(number, ())))
    if code:
        with pytest.raises(typer.Exit) as ended:
            news.finish(Finished("2 rounds done"))
        assert ended.value.exit_code == code
    else:
        news.finish(Finished("2 rounds done"))
    out = capsys.readouterr().out
    assert "done: 2 rounds done" in out
    assert (f"failed here in all {len(counted)} rounds" in out) is bool(code)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("a.b", "is [wrong]", "do [/that]"), 2, "refused a.b: is [wrong] (do [/that])"),
        (RunAbortedError(NASTY), 3, f"aborted {SHOWN}"),
        (UsageError("a bug"), 3, "aborted a bug"),
        (OSError(28, "No space left on device", "/x/[y]"), 3, "aborted /x/[y]: No space left on device"),
        (OSError("no number"), 3, "aborted no number"),
        (
            ModuleNotFoundError("No module named 'torch'", name="torch.nn"),
            2,
            "refused torch.nn: is not installed (pip install 'securefl[learn]')",
        ),
        (KeyboardInterrupt(), 3, "aborted by Ctrl-C; what was written stays"),
    ],
)
def test_every_error_is_one_line_and_a_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, one_line_errors():
        raise error
    assert ended.value.exit_code == code
    out, err = capsys.readouterr()
    assert out == ""
    assert ANSI.sub("", err) == line + "\n"


def test_long_lines_are_not_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    say("word " * 100)
    assert capsys.readouterr().out.count("\n") == 1


def test_a_bug_is_not_dressed_up() -> None:
    with pytest.raises(ZeroDivisionError), one_line_errors():
        raise ZeroDivisionError
    with pytest.raises(ModuleNotFoundError), one_line_errors():
        raise ModuleNotFoundError(name="securefl.nowhere")
