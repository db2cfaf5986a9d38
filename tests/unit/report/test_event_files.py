"""``securefl report --tensorboard``: event files, read again by TensorBoard's own reader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from securefl.lab import event_files
from securefl.runtime.report.records import RoundRecord
from tests.unit.cli.programs import call, refusal

Found = dict[str, dict[int, float]]
OVERRIDES = ("encoding.clip=1.0", "privacy.unit=party", "privacy.multiplier=2.0", "encoding.scale_bits=9")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    done = call(
        "simulate", "quickstart", "--out", folder, "--seed", "1", "--set", "stop.rounds=3",
        *(word for one in OVERRIDES for word in ("--set", one)),
    )  # fmt: skip
    assert done.exit_code in {0, 1}, done.output
    return folder


def read(folder: Path) -> Found:
    """All scalars by tag and round."""
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    tags = found.Tags()["scalars"]
    return {tag: {one.step: one.value for one in found.Scalars(tag)} for tag in tags}


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def expected(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row of ``metrics.jsonl`` by tag."""
    traffic = row["traffic"].values()
    numbers: dict[str, float | None] = {
        "test/accuracy": row["accuracy"],
        "test/loss": row["loss"],
        "test/backdoor_success": row.get("backdoor_success"),
        "update/norm": row["update_norm"],
        "parties/drawn": row["participants"],
        "parties/counted": row["counted"],
        "parties/left_out": len(row["left_out"]),
        "parties/joined_late": len(row.get("joined", {})),
        "sums/opened": len(row["clusters"]["opened"]),
        "sums/lost": len(row["clusters"]["lost"]),
        "sums/left_out_by_rule": len(row["clusters"]["rejected"]),
        "sums/left_out_by_checks": len(row["clusters"].get("failed", ())),
        "protocol/redraws": row["redraws"],
        "protocol/retries": row["retries"],
        "protocol/rejected_messages": sum(one["count"] for one in row["refusals"]),
    }
    if "failed_trainings" in row:
        numbers["parties/failed_trainings"] = len(row["failed_trainings"])
    if any(spent is not None for spent in row.get("epsilon", {}).values()):
        numbers["privacy/largest_epsilon"] = max(filter(None, row["epsilon"].values()))
    for name, one in row.get("metrics", {}).items():
        numbers[f"sites/{name}"] = one["value"]
        numbers |= {f"sites/{name}/{part}": one[part] for part in ("low", "high", "deviation")}
    numbers |= {f"seconds/{step}": spent for step, spent in row["seconds"].items()}
    for way in ("up", "down"):
        if sizes := [volumes[way]["bytes"] for volumes in traffic if way in volumes]:
            numbers[f"traffic/{way}_bytes"] = sum(sizes)
    numbers |= {f"tally/{name}": number for name, number in row.get("tally", {}).items()}
    return {tag: value for tag, value in numbers.items() if value is not None}


def check(found: Found, rows: list[dict[str, Any]]) -> None:
    """Each value is that of the row in single precision, and there are no others."""
    wanted: Found = {}
    for row in rows:
        for tag, value in expected(row).items():
            wanted.setdefault(tag, {})[row["round"]] = float(np.float32(value))
    assert found == wanted


def test_the_reader_finds_every_value_of_the_rows(run: Path, tmp_path: Path) -> None:
    done = call("report", run, "--tensorboard", tmp_path / "events")
    assert done.exit_code == 0, done.output
    (file,) = (tmp_path / "events").iterdir()
    assert str(file) in done.stdout
    found = read(tmp_path / "events")
    check(found, rows_of(run))
    assert found.keys() >= {"test/accuracy", "privacy/largest_epsilon", "seconds/total", "sums/opened"}
    assert not (run / "report.html").exists()


ROW: dict[str, Any] = {
    "round": 0, "accuracy": None, "loss": None, "update_norm": 0.25, "participants": 3,
    "survivors": ["p00", "p02"],
    "counted": 2, "left_out": [{"party": "p01", "reason": "silent"}], "redraws": 1, "retries": 2,
    "clusters": {"opened": [{"reclustering": 0, "cluster": 0, "survivors": ["p00", "p02"]}], "kept": [],
                 "rejected": [[0, 0]], "lost": [{"reclustering": 0, "cluster": 1, "reason": "x"}],
                 "failed": [{"reclustering": 0, "cluster": 0, "reason": "x"}]},
    "seconds": {"hello": 0.5, "total": 2.0}, "traffic": {"p00": {"up": {"messages": 1, "bytes": 7}}},
    "refusals": [{"by": "server", "culprit": "p01", "reason": "x", "count": 4}],
    "metrics": {"scores.auc": {"value": 0.75, "pooled": 0.75, "median": 0.5, "low": 0.5, "high": 1.0,
                               "clusters": 2, "higher": True, "deviation": 0.125}},
    "failed_trainings": ["p00"], "joined": {"p02": None}, "tally": {"many": 5}, "backdoor_success": 0.5,
}  # fmt: skip


@pytest.fixture
def growing(run: Path, tmp_path: Path) -> Path:
    """An unfinished run with one round that has every kind of number."""
    folder = tmp_path / "growing"
    folder.mkdir()
    (folder / "scenario.toml").write_bytes((run / "scenario.toml").read_bytes())
    row = RoundRecord.from_row(ROW).row()
    (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def test_a_row_with_every_kind_of_number(growing: Path, tmp_path: Path) -> None:
    event_files.write_events(growing, tmp_path / "events")
    found = read(tmp_path / "events")
    check(found, rows_of(growing))
    assert found["sites/scores.auc/deviation"] == {0: 0.125}
    assert found["parties/joined_late"] == {0: 1.0}
    assert "test/loss" not in found


def test_a_run_without_rounds_gives_a_file_without_numbers(growing: Path, tmp_path: Path) -> None:
    (growing / "metrics.jsonl").unlink()
    event_files.write_events(growing, tmp_path / "events")
    assert read(tmp_path / "events") == {}


def test_times_are_those_of_the_rounds(run: Path, tmp_path: Path) -> None:
    event_files.write_events(run, tmp_path / "events")
    found = EventAccumulator(str(tmp_path / "events"))
    found.Reload()
    times = [one.wall_time for one in found.Scalars("seconds/total")]
    assert times[-1] == pytest.approx((run / "metrics.jsonl").stat().st_mtime, abs=1e-3)
    spent = [row["seconds"]["total"] for row in rows_of(run)]
    assert np.diff(times) == pytest.approx(spent[1:], abs=1e-3)


def test_a_live_run_is_followed_to_its_end(
    run: Path, growing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first row is there, then another appears, then the summary; each pause is one of these steps."""
    first = rows_of(run)
    metrics = growing / "metrics.jsonl"
    metrics.write_text(json.dumps(first[0]) + "\n")
    seen: list[int] = []

    def pause(_seconds: float) -> None:
        seen.append(len(read(tmp_path / "events")["seconds/total"]))
        if len(seen) < len(first):
            metrics.write_text("".join(json.dumps(row) + "\n" for row in first[: len(seen) + 1]))
        else:
            (growing / "summary.json").write_bytes((run / "summary.json").read_bytes())

    monkeypatch.setattr("securefl.lab.event_files.time.sleep", pause)
    done = call("report", growing, "--tensorboard", tmp_path / "events", "--live")
    assert done.exit_code == 0, done.output
    assert seen == [1, 2, 3]
    check(read(tmp_path / "events"), first)


def test_what_it_refuses(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    events = ("--tensorboard", tmp_path / "events")
    assert "is not empty" in refusal(call("report", run, "--tensorboard", tmp_path / "full"))
    assert "--out" in refusal(call("report", run, *events, "--out", tmp_path / "page.html"))
    assert "nothing" in refusal(call("report", tmp_path / "nothing", *events))
    monkeypatch.setattr("securefl.lab.event_files.importlib.util.find_spec", lambda _name: None)
    line = refusal(call("report", run, *events))
    assert "pip install 'securefl[tensorboard]'" in line
    assert not (tmp_path / "events").exists()


def test_a_file_that_cannot_be_written_is_exit_code_3(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert call("report", run, "--tensorboard", tmp_path / "file" / "events").exit_code == 3
