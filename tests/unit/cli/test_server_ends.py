"""How ``securefl server`` ends and what it leaves, with a stand-in for the process and its network."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import PartyId
from securefl.methods.feasibility.limits import check
from securefl.protocol.kernel.effects import Aborted, Finished
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import (
    AnyReport,
    ClustersDrawn,
    ModelStepped,
    RoundDone,
    RoundStarted,
    SumOpened,
)
from securefl.runtime.launch.interrupts import SignalledError
from securefl.runtime.launch.process import Leader
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.report.witness import Ending, Fact, News, Refusal, Traffic, Waiting
from tests.simulation.rosters import seeded_identities
from tests.unit.cli.programs import SCENARIO, call, files, refusal, write_scenario

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = tuple(map(PartyId, ("bern", "north", "oslo", "rome", "south", "west")))
Tell = Callable[[News], None]
Acts = Callable[[ProcessSettings, Tell], Finished | Aborted]


def a_round(number: int, norm: float | None = 1.0) -> tuple[AnyReport, ...]:
    halves = NAMES[:3], NAMES[3:]
    sums = tuple(ClusterSum(0, j, half, half, np.zeros(2, np.uint32)) for j, half in enumerate(halves))
    done = RoundDone(number, 0.5, 1.5, NAMES, NAMES, ((0, 0), (0, 1)), (), ((0, 0), (0, 1)), ())
    return (
        RoundStarted(number, b""),
        ClustersDrawn(number, b"", (halves,)),
        *(SumOpened(number, one) for one in sums),
        ModelStepped(number, (), (), norm),
        done,
    )


def told(*norms: float | None, outcome: Finished | Aborted | None = None) -> Acts:
    """A process that leads so many rounds, of these updates, and ends."""

    def act(_settings: ProcessSettings, tell: Tell) -> Finished | Aborted:
        for number, norm in enumerate(norms):
            for report in a_round(number, norm):
                tell(Fact(float(number), report))
            tell(Traffic({"north": (3, 300)}, {"*": (1, 1000)}))
        ended = outcome or Finished(f"{len(norms)} rounds done")
        tell(Ending(ended))
        return ended

    return act


def failing(error: BaseException) -> Acts:
    """A process that fails after a round, and cannot even say so in its transcript."""

    def act(_settings: ProcessSettings, tell: Tell) -> Finished | Aborted:
        for report in a_round(0):
            tell(Fact(0.0, report))
        raise error

    return act


@pytest.fixture
def lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def run(acts: Acts, *more: str, text: str = SCENARIO) -> Result:
        def stand_in(settings: ProcessSettings, tell: Tell, leader: Leader) -> Finished | Aborted:
            leader.check()
            roster = seeded_identities(NAMES, 1)[1]
            leader.begin(RunPlan(settings.run, settings.scenario, check(settings.scenario), roster, 2))
            return acts(settings, tell)

        monkeypatch.setattr("securefl.runtime.launch.leading.server", stand_in)
        options = (
            "--key",
            "k",
            "--roster",
            "r",
            "--broker",
            "mqtt://nowhere:1",
            "--run",
            "r1",
            "--data",
            "d",
        )
        scenario = write_scenario(tmp_path, text)
        return call("server", scenario, *options, "--out", tmp_path / "out", *more)

    return run


EXPECTING = SCENARIO + '[[expect]]\nmetric = "accuracy"\nat_least = 0.9\n'
EXPECTING_AN_ABORT = SCENARIO + '[[expect]]\nmetric = "aborted"\nat_least = 1\n'


@pytest.mark.parametrize(
    ("text", "acts", "code"),
    [
        (SCENARIO, told(1.0, 1.0), 0),
        (EXPECTING, told(1.0, 1.0), 1),
        (EXPECTING_AN_ABORT, told(1.0, outcome=Aborted("too few")), 0),
        (SCENARIO, told(1.0, None), 1),
    ],
)
def test_an_outcome_and_what_was_expected_make_the_code(
    text: str, acts: Acts, code: int, lead: Callable[..., Result], tmp_path: Path
) -> None:
    result = lead(acts, text=text)
    assert (result.exit_code, result.stderr) == (code, "")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["exit_code"] == code


@pytest.mark.parametrize(
    ("outcome", "stays"),
    [
        (None, False),
        (Aborted("too few"), False),
        (Aborted("paused", resumable=True, over=False), True),
        (Aborted("another server leads", over=False), True),
    ],
)
def test_the_checkpoint_goes_once_the_summary_is_there(
    outcome: Aborted | None, stays: bool, lead: Callable[..., Result], tmp_path: Path
) -> None:
    """Whoever is killed before would find neither."""
    path = tmp_path / "out" / "server.checkpoint"
    there: list[bool] = []

    def act(settings: ProcessSettings, tell: Tell) -> Finished | Aborted:
        path.write_bytes(b"")
        ended = told(1.0, outcome=outcome)(settings, tell)
        there.append(path.exists() and (tmp_path / "out" / "summary.json").exists())
        return ended

    lead(act)
    assert (there, path.exists()) == ([True], stays)


@pytest.mark.parametrize("error", [RunAbortedError("the broker is gone"), KeyboardInterrupt()])
def test_the_checkpoint_of_a_run_that_failed_stays(
    error: BaseException, lead: Callable[..., Result], tmp_path: Path
) -> None:
    path = tmp_path / "out" / "server.checkpoint"

    def act(settings: ProcessSettings, tell: Tell) -> Finished | Aborted:
        path.write_bytes(b"")
        return failing(error)(settings, tell)

    assert lead(act).exit_code == 3
    assert path.exists()


@pytest.mark.parametrize(
    ("acts", "line"),
    [
        (told(1.0, outcome=Aborted("too few [b]parties")), "too few [b]parties"),
        (failing(RunAbortedError("the broker is gone")), "the broker is gone"),
        (told(1.0, outcome=Aborted("stopped by SIGTERM")), "stopped by SIGTERM"),
        (failing(KeyboardInterrupt()), "by Ctrl-C; what was written stays"),
        (failing(SignalledError("SIGHUP")), "by SIGHUP; what was written stays"),
    ],
)
def test_however_a_run_ends_it_leaves_its_summary(
    acts: Acts, line: str, lead: Callable[..., Result], tmp_path: Path
) -> None:
    assert refusal(lead(acts), code=3) == line
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["aborted"], summary["exit_code"], len(summary["rounds"])) == (True, 3, 1)
    assert {"scenario.toml", "metrics.jsonl"} <= files(tmp_path / "out")


def test_who_stops_a_server_has_not_had_the_abort_that_was_expected(lead: Callable[..., Result]) -> None:
    stopped = lead(told(1.0, outcome=Aborted("stopped by SIGINT")), text=EXPECTING_AN_ABORT)
    assert refusal(stopped, code=3) == "stopped by SIGINT"


def test_a_pause_says_its_own_exit_code_wherever_it_says_one(
    lead: Callable[..., Result], tmp_path: Path
) -> None:
    paused = lead(told(1.0, outcome=Aborted("stopped by SIGTERM", resumable=True, over=False)))
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (paused.exit_code, summary["exit_code"]) == (4, 4)
    said = "exit 4: the run is paused: the same command goes on with it\nsmall paused: stopped by SIGTERM\n"
    assert paused.stdout.endswith(said)
    assert paused.stderr == ""


def test_the_seconds_of_a_run_are_those_of_all_its_servers(
    lead: Callable[..., Result], tmp_path: Path
) -> None:
    lead(told(1.0, outcome=Aborted("stopped by SIGTERM", resumable=True, over=False)))
    rows, summary = tmp_path / "out" / "metrics.jsonl", tmp_path / "out" / "summary.json"
    row = json.loads(rows.read_text())
    rows.write_text(json.dumps(row | {"seconds": {"total": 5000.0}}) + "\n")
    (tmp_path / "out" / "server.checkpoint").write_bytes(b"")

    def act(_settings: ProcessSettings, tell: Tell) -> Finished:
        tell(Ending(ended := Finished("1 round done")))
        return ended

    assert lead(act).exit_code == 0
    assert json.loads(summary.read_text())["seconds"] > 5000.0


def test_the_header_has_the_odds_and_the_parties_of_the_roster(lead: Callable[..., Result]) -> None:
    shown = lead(told(1.0)).stdout.splitlines()
    assert shown[0] == "run r1: 6 parties; 2 clusters of 3"
    assert any(line.startswith("tolerance: 1 dropout per cluster") for line in shown)
    assert "server: round 0: accuracy 50.0 %, loss 1.5, 6 of 6 counted, 2 of 2 sums opened, 0.0 s" in shown
    assert shown[-1] == "done: 1 rounds done"


def test_the_explanation_has_the_odds_and_the_roster(lead: Callable[..., Result]) -> None:
    shown = lead(told(1.0), "--explain").stdout.splitlines()
    assert shown[:2] == ["run r1", "  6 parties"]
    assert "  each process has its own key; roster: bern, north, oslo, rome, south, west" in shown
    assert any("a whole cluster with probability" in line for line in shown)


def test_json_lines_are_those_of_a_local_run(lead: Callable[..., Result]) -> None:
    lines = [json.loads(line) for line in lead(told(1.0, 1.0), "--json").stdout.splitlines()]
    assert [lines[0]["event"], lines[-1]["event"]] == ["start", "summary"]
    assert sum(line["event"] == "round_done" for line in lines) == 2
    assert lines[-1]["exit_code"] == 0


def test_rows_and_summary_count_what_the_server_saw(lead: Callable[..., Result], tmp_path: Path) -> None:
    def act(settings: ProcessSettings, tell: Tell) -> Finished | Aborted:
        tell(Refusal(0.0, "west", "garbage"))
        return told(1.0, 1.0)(settings, tell)

    assert lead(act).exit_code == 0
    rows = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [row["survivors"] for row in rows] == [list(NAMES)] * 2
    assert [row["left_out"] for row in rows] == [[]] * 2
    assert {*rows[1]["traffic"]} == {*NAMES}
    assert rows[1]["traffic"]["north"]["up"] == {"messages": 3, "bytes": 300}
    assert rows[0]["refusals"] == [{"by": "server", "culprit": "west", "reason": "garbage", "count": 1}]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["server_view"]["smallest_sum"] == 3
    assert summary["traffic"]["down"] == {"messages": 12, "bytes": 12_000}


@pytest.mark.parametrize("file", ["scenario.toml", "metrics.jsonl", "summary.json"])
def test_a_users_file_is_not_overwritten(file: str, lead: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / file).write_text("mine")
    assert "choose another --out" in refusal(lead(told(1.0)))
    assert (tmp_path / "out" / file).read_text() == "mine"
    assert files(tmp_path / "out") == {file}


def test_a_server_that_cannot_account_for_privacy_is_refused_before_anybody_hears_of_it(
    lead: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing() -> None:
        raise ConfigError("privacy", "the privacy accountant needs dp-accounting, which is not installed")

    monkeypatch.setattr("securefl.runtime.launch.leading.need_dp_accounting", missing)
    noisy = (
        SCENARIO
        + """
[training.dp_sgd]
[encoding]
scale_bits = 12
[weighting]
mode = "ignore"
[privacy]
unit = "record"
multiplier = 1.5
records = 20
delta = 0.01
"""
    )
    assert "needs dp-accounting" in refusal(lead(told(1.0), "--set", "training.batch_size=4", text=noisy))
    assert files(tmp_path / "out") == set()


def test_whom_it_waits_for_is_said_under_its_name_once(lead: Callable[..., Result]) -> None:
    def act(settings: ProcessSettings, tell: Tell) -> Finished | Aborted:
        tell(Waiting(("west",), since=NOON))
        return told(1.0)(settings, tell)

    assert "server: waits for west since 12:00:00" in lead(act).stdout.splitlines()


def test_a_wait_says_how_many_have_answered(lead: Callable[..., Result]) -> None:
    def act(settings: ProcessSettings, tell: Tell) -> Finished | Aborted:
        tell(Waiting(("north", "south"), since=NOON, asked=5))
        return told(1.0)(settings, tell)

    line = "server: 3 of 5 parties answered, waits for north, south since 12:00:00"
    assert line in lead(act).stdout.splitlines()
