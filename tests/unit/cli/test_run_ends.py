"""How ``securefl run`` ends when its federation does, with a stand-in for the processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.protocol.kernel.effects import Aborted, Finished
from securefl.runtime.launch.conclusion import end_of
from securefl.runtime.report.outcome import RunEnd
from securefl.runtime.report.rundir import RunDirectory
from tests.unit.cli.programs import SCENARIO, call, files, refusal, write_scenario

Ends = Callable[[RunDirectory], Finished | Aborted]


def run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, ends: Ends, text: str = SCENARIO, *more: str
) -> Result:
    class StandIn:
        def __init__(self, scenario: object, _options: object, directory: RunDirectory, *_: object) -> None:
            self.scenario = scenario
            self._directory = directory

        def run(self) -> RunEnd:
            return end_of(ends(self._directory))

    monkeypatch.setattr("securefl.runtime.launch.federation.LocalRun", StandIn)
    return call("run", write_scenario(folder, text), "--out", folder / "run", *more)


EXPECTING = SCENARIO + '[[expect]]\nmetric = "accuracy"\nat_least = 0.9\n'
EXPECTING_AN_ABORT = SCENARIO + '[[expect]]\nmetric = "aborted"\nat_least = 1\n'


def test_an_aborted_run_says_why_on_stderr_and_keeps_its_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(monkeypatch, tmp_path, lambda _d: Aborted("2 of 6 parties [b]joined"))
    assert refusal(result, code=3) == "2 of 6 parties [b]joined"
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["aborted"], summary["exit_code"]) == (True, 3)
    assert files(tmp_path / "run") == {"scenario.toml", "metrics.jsonl", "summary.json"}


def test_json_output_stays_json_when_a_run_aborts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, tmp_path, lambda _d: Aborted("why"), SCENARIO, "--json")
    assert [json.loads(line)["event"] for line in result.stdout.splitlines()][-1] == "summary"
    assert refusal(result, code=3) == "why"


@pytest.mark.parametrize(
    ("text", "outcome", "code"),
    [
        (SCENARIO, Finished("1 round done"), 0),
        (EXPECTING, Finished("1 round done"), 1),
        (EXPECTING_AN_ABORT, Aborted("as expected"), 0),
        (EXPECTING_AN_ABORT, Finished("1 round done"), 1),
    ],
)
def test_an_outcome_and_what_was_expected_make_the_code(
    text: str, outcome: Finished | Aborted, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(monkeypatch, tmp_path, lambda _d: outcome, text)
    assert result.exit_code == code
    assert result.stderr == ""


def _refused(directory: RunDirectory) -> Finished | Aborted:
    raise ConfigError("data.set", "is missing")


def _refused_after_a_start(directory: RunDirectory) -> Finished | Aborted:
    _write_transcript(directory)
    raise ConfigError("server", "refused itself")


def _refused_beside_a_strangers_file(directory: RunDirectory) -> Finished | Aborted:
    (directory.path / "precious").write_text("data")
    raise ConfigError("data.set", "is missing")


def _write_transcript(directory: RunDirectory) -> None:
    path = directory.transcript_folder / "server.jsonl"
    path.parent.mkdir()
    path.write_text("something")


def _never_started(directory: RunDirectory) -> Finished | Aborted:
    # As by a process that was refused before it wrote anything.
    (directory.path / "transcripts").mkdir()
    raise RunAbortedError("the broker is out of reach")


def _crashed_at_its_start(directory: RunDirectory) -> Finished | Aborted:
    (directory.path / "server.crash.log").write_text("Traceback")
    raise RunAbortedError("internal error")


def _broke_off_after_a_round(directory: RunDirectory) -> Finished | Aborted:
    directory.metrics_file.write_text("{}\n")
    raise RunAbortedError("the broker is gone")


def _died(directory: RunDirectory) -> Finished | Aborted:
    _write_transcript(directory)
    raise RunAbortedError("the run ended: the run ended: the server process died")


def _interrupted(directory: RunDirectory) -> Finished | Aborted:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("ends", "code", "line"),
    [(_refused, 2, "data.set: is missing"), (_never_started, 3, "the broker is out of reach")],
)
def test_a_run_that_never_started_leaves_nothing(
    ends: Ends, code: int, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusal(run(monkeypatch, tmp_path, ends), code) == line
    assert files(tmp_path) == {"small.toml"}


@pytest.mark.parametrize(
    ("ends", "left"),
    [(_crashed_at_its_start, "server.crash.log"), (_broke_off_after_a_round, "metrics.jsonl")],
)
def test_whatever_was_written_keeps_the_directory(
    ends: Ends, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal(run(monkeypatch, tmp_path, ends), 3)
    assert (tmp_path / "run" / left).read_text()
    assert (tmp_path / "run" / "scenario.toml").exists()


def test_nobody_elses_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal(run(monkeypatch, tmp_path, _refused_beside_a_strangers_file))
    assert (tmp_path / "run" / "precious").read_text() == "data"


def test_what_was_written_after_a_start_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal(run(monkeypatch, tmp_path, _refused_after_a_start))
    assert {"run/scenario.toml", "run/transcripts/server.jsonl"} <= files(tmp_path)


def test_ctrl_c_leaves_a_summary_and_is_never_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(monkeypatch, tmp_path, _interrupted, EXPECTING_AN_ABORT)
    assert refusal(result, code=3) == "by the user (Ctrl-C); what was written stays"
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["aborted"], summary["exit_code"]) == (True, 3)
    assert summary["reason"].startswith("by the user (Ctrl-C)")


@pytest.mark.parametrize(
    ("ends", "line", "left"),
    [
        (_died, "the run ended: the run ended: the server process died", {"run/transcripts/server.jsonl"}),
        (_interrupted, "by the user (Ctrl-C); what was written stays", set()),
    ],
)
def test_an_abort_takes_nothing_away(
    ends: Ends, line: str, left: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusal(run(monkeypatch, tmp_path, ends), code=3) == line
    assert {"run/scenario.toml", "run/metrics.jsonl", *left} <= files(tmp_path)
