"""``make fresh``: the part of the committed results that belongs to a commit, and its exit codes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from securefl.cli import reproduce as command
from securefl.runtime.launch import scenario_folder
from tests.unit.experiments.test_freshness import run, turned
from tests.unit.experiments.tiny import shelf
from tools.fresh import PARTS, ROOT, check, committed, part_of

RESULTS = ROOT / "docs" / "results"


def test_the_parts_hold_each_committed_result_once() -> None:
    results = list(committed(RESULTS, scenario_folder() / "papers"))
    files = {path for paper in RESULTS.iterdir() if paper.is_dir() for path in paper.glob("*-*.json")}
    assert len(results) == len(files - set((RESULTS / "leakage").glob("*")))
    parts = [part_of(results, f"{start:x}") for start in range(PARTS)]
    assert set(Counter(record.stem + paper for part in parts for paper, _, record in part).values()) == {1}
    assert sum(map(len, parts)) == len(results)
    assert part_of(results, f"{PARTS + 1:040x}") == parts[1]
    assert part_of(results, "") == results


def test_a_stale_result_fails_until_its_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    presets = shelf(tmp_path)
    monkeypatch.setattr(command, "_PRESETS", presets)
    out = tmp_path / "results" / "tiny"
    run("tiny", out, "--figure", "7b", "--jobs", "1", "--seeds", "1")
    before = sorted((tmp_path / "results").rglob("*"))
    assert (_check(tmp_path, presets), capsys.readouterr().out.splitlines()[-1]) == (
        0,
        "0 of 1 results stale",
    )
    turned(out / "7b-desk.json", 1)
    assert _check(tmp_path, presets) == 1
    printed = capsys.readouterr()
    assert "tiny 7b-desk: stale: differs by up to 0.020000" in printed.out
    assert "securefl reproduce tiny --figure 7b --fresh" in printed.err
    assert sorted((tmp_path / "results").rglob("*")) == before  # A check in CI writes nothing.
    run("tiny", out, "--check", code=1)
    assert _check(tmp_path, presets) == 0
    assert "its page marks it as stale" in capsys.readouterr().out


def test_a_result_of_another_figure_file_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    presets = shelf(tmp_path)
    monkeypatch.setattr(command, "_PRESETS", presets)
    run("tiny", tmp_path / "results" / "tiny", "--figure", "7b", "--jobs", "1", "--seeds", "1")
    file = presets / "tiny" / "_tiny.toml"
    file.write_text(file.read_text().replace("rounds = 4", "rounds = 3"))
    assert _check(tmp_path, presets) == 1
    printed = capsys.readouterr()
    assert "tiny 7b-desk: not checked: its scenarios have changed since it was run" in printed.out
    assert printed.out.splitlines()[-1] == "1 of 1 results stale"
    assert "its figure file has changed: compute it again" in printed.err


def test_missing_data_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = committed(RESULTS, scenario_folder() / "papers")
    result = next(one for one in known if one[2].stem == "figure-5-mnist-desk")
    assert check([result], RESULTS, tmp_path) == 0
    assert "0 of 0 results stale, 1 not checked" in capsys.readouterr().out


def _check(folder: Path, presets: Path) -> int:
    return check(list(committed(folder / "results", presets)), folder / "results", folder)
