from __future__ import annotations

import math
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError, RunAbortedError, UsageError
from securefl.runtime.report.rundir import RunDirectory
from securefl.runtime.transcript.chain import TranscriptWriter
from securefl.scenario.resolved import to_toml
from securefl.training.models.checkpoint import model_path
from tests.simulation.world import scenario
from tests.unit.transcript.test_chain import disk_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_default_names_carry_scenario_and_time_and_never_meet(tmp_path: Path) -> None:
    made = [RunDirectory.create(None, "demo", root=tmp_path / "runs", now=NOON).path for _ in range(3)]
    assert [path.name for path in made] == [
        "demo-20260301T120000Z",
        "demo-20260301T120000Z-2",
        "demo-20260301T120000Z-3",
    ]


def test_a_used_directory_is_refused_and_untouched(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "out", "demo").write_scenario(scenario(9))
    before = sorted((tmp_path / "out").iterdir())
    with pytest.raises(ConfigError, match=r"not empty \(choose another --out"):
        RunDirectory.create(tmp_path / "out", "demo")
    assert sorted((tmp_path / "out").iterdir()) == before


def test_a_servers_folder_may_hold_anything_but_another_run(tmp_path: Path) -> None:
    """``--out`` is the working directory unless told, and keys and scenarios lie there."""
    run, plan = RunDirectory(tmp_path), scenario(9)
    (tmp_path / "server.key").write_text("mine")
    run.check_free(plan)
    own = "# By hand.\n" + to_toml(plan)
    run.scenario_file.write_text(own)
    run.check_free(plan)
    run.keep_scenario(plan)
    assert run.scenario_file.read_text() == own
    for text in (to_toml(scenario(6)), "no scenario"):
        run.scenario_file.write_text(text)
        with pytest.raises(
            ConfigError, match=r"is another scenario than that of this run \(choose another --out"
        ):
            run.check_free(plan)
    run.scenario_file.unlink()
    run.keep_scenario(plan)
    assert run.read_scenario() == plan
    for file in (run.metrics_file, run.summary_file, run.round_models):
        file.write_text("")
        with pytest.raises(ConfigError, match=f"holds another run already \\({file.name}\\)"):
            run.check_free(plan)
        file.unlink()


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert RunDirectory.create(tmp_path / "out", "demo").path == tmp_path / "out"


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_in_the_way_is_refused(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="cannot be made"):
        RunDirectory.create(tmp_path / out, "demo")
    assert (tmp_path / "file").read_text() == "mine"


def test_final_models_are_named_as_they_are_kept(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "out", "demo")
    assert list(run.models(3)) == ["model", "model 1", "model 2"]
    for count in (1, 3):
        kept = [str(model_path(run.model_file, number)) for number in range(count)]
        assert list(run.models(count).values()) == kept


def test_everything_comes_back(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "out", "demo")
    run.write_scenario(scenario(9))
    metrics = run.metrics()
    metrics.append({"round": 0, "loss": None})
    metrics.append({"round": 1, "loss": 0.5})
    metrics.close()
    run.write_json("summary.json", {"exit_code": 0})
    for vantage in ("server", "p00"):
        TranscriptWriter(run.transcript_folder / f"{vantage}.jsonl", {"run": "r1"}).close()
    again = RunDirectory.open(run.path)
    assert again.read_scenario() == scenario(9)
    assert [row["round"] for row in again.read_metrics()] == [0, 1]
    assert again.read_summary() == {"exit_code": 0}
    assert set(again.read_transcripts()) == {"server", "p00"}
    assert not list(run.path.rglob("*.part"))


def test_rows_are_there_at_once_and_a_torn_one_is_left_out(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "out", "demo")
    metrics = run.metrics()
    metrics.append({"round": 0})
    assert run.read_metrics() == ({"round": 0},)
    metrics.close()
    with run.metrics_file.open("a") as file:
        file.write('{"round": 1, "acc')
    assert run.read_metrics() == ({"round": 0},)
    run.metrics_file.write_text('{"round": 0}\nrubbish\n')
    with pytest.raises(ConfigError, match=r"metrics\.jsonl:2: is not a JSON object"):
        run.read_metrics()


def test_rows_go_on_behind_those_of_a_process_that_was_killed(tmp_path: Path) -> None:
    """What it had not written to the end is taken away, or the next row would be a part of it."""
    run = RunDirectory.create(tmp_path / "out", "demo")
    for torn in ("", '{"round": 1, "acc', '{"round": 1}'):
        run.metrics_file.write_text('{"round": 0}\n' + torn)
        with closing(run.more_metrics()) as metrics:
            metrics.append({"round": 1, "again": True})
        assert run.metrics_file.read_text() == '{"round": 0}\n{"round": 1, "again": true}\n'
    run.metrics_file.write_text('{"rou')
    run.more_metrics().close()
    assert run.metrics_file.read_text() == ""
    run.metrics_file.unlink()
    with pytest.raises(ConfigError, match=r"metrics\.jsonl"):
        run.more_metrics()


def test_a_row_that_is_none_is_told_by_its_file(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "out", "demo")
    run.metrics_file.write_text('{"round": 0}\n')
    with pytest.raises(ConfigError, match=r"metrics\.jsonl: is damaged"):
        next(run.each_record())
    run.metrics_file.write_bytes(b"\xff\n")
    with pytest.raises(ConfigError, match=r"metrics\.jsonl: is not a text file"):
        next(run.each_record())


def test_transcripts_of_different_runs_do_not_mix(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "out", "demo")
    TranscriptWriter(run.transcript_folder / "server.jsonl", {"run": "r1"}).close()
    TranscriptWriter(run.transcript_folder / "p00.jsonl", {"run": "r2"}).close()
    with pytest.raises(ConfigError, match="different runs"):
        run.read_transcripts()


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not the directory of a run: scenario\.toml"):
        RunDirectory.open(tmp_path)
    with pytest.raises(ConfigError, match="is not a directory"):
        RunDirectory.open(tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot be read"):
        RunDirectory(tmp_path).read_summary()


def test_a_full_disk_loses_nothing_that_was_written(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "out", "demo")
    run.write_json("summary.json", {"exit_code": 0})
    metrics = run.metrics()
    metrics.append({"round": 0})
    with disk_of(64):
        with pytest.raises(RunAbortedError, match="free disk space"):
            run.write_json("summary.json", {"text": "x" * 1000})
        with pytest.raises(RunAbortedError, match="free disk space"):
            metrics.append({"text": "x" * 1000})
    assert run.read_summary() == {"exit_code": 0}
    assert run.read_metrics() == ({"round": 0},)
    assert run.metrics_file.read_text() == '{"round": 0}\n'
    assert not list(run.path.rglob("*.part"))


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "out", "demo")
    with pytest.raises(UsageError):
        run.write_json("summary.json", {"value": {1, 2}})  # type: ignore[dict-item]
    assert not run.summary_file.exists()


def test_no_summary_is_lost_to_a_number_that_json_has_none_for(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "out", "demo")
    run.write_json("summary.json", {"privacy": {"epsilon": math.inf, "many": [1.5, -math.inf, math.nan]}})
    assert run.read_summary() == {"privacy": {"epsilon": None, "many": [1.5, None, None]}}
    with closing(run.metrics()) as metrics:
        metrics.append({"epsilon": {"p00": math.inf}})
    assert run.read_metrics() == ({"epsilon": {"p00": None}},)


def test_of_two_runs_that_find_a_directory_empty_one_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunDirectory.create(tmp_path / "out", "demo")
    monkeypatch.setattr(Path, "iterdir", lambda _path: iter(()))
    with pytest.raises(ConfigError, match="exists and is not empty"):
        RunDirectory.create(tmp_path / "out", "demo")
