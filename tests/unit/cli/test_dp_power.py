"""``securefl dp power``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from securefl.cli import dp
from securefl.lab.experiments.deviations import PowerSetting
from tests.unit.cli.programs import call


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = (PowerSetting(dim=500, members=3), PowerSetting(dim=600, members=1))
    monkeypatch.setattr(dp, "SETTINGS", settings)


def test_it_writes_a_record_and_a_page_and_says_what_it_found(tmp_path: Path) -> None:
    result = call("dp", "power", "--trials", "2", "--out", str(tmp_path / "new"))
    assert result.exit_code == 0, result.stderr
    assert "100 % of trials done after" in result.stdout
    assert "percent of sums that fail the checks, with 500 parameters and 3 members:" in result.stdout
    assert "  1 member adds no noise" in result.stdout
    record = json.loads((tmp_path / "new" / "checks.json").read_bytes())
    assert (record["trials"], len(record["blocks"])) == (2, 2)
    assert "## d = 600, sums of 1 party" in (tmp_path / "new" / "checks.md").read_text()


def test_fast_and_json(tmp_path: Path) -> None:
    result = call("dp", "power", "--fast", "--trials", "1", "--json", "--out", str(tmp_path))
    assert result.exit_code == 0, result.stderr
    assert result.stdout == (tmp_path / "checks.json").read_text()
    assert [block["dim"] for block in json.loads(result.stdout)["blocks"]] == [500]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = call("dp", "power", "--trials", "1", "--fast", "--out", str(tmp_path / "file" / "x"))
    assert result.exit_code == 3
    assert result.stderr.startswith("aborted ")
    assert result.stderr.count("\n") == 1
    assert "after" not in result.stdout


def test_refuses_no_trials() -> None:
    assert call("dp", "power", "--trials", "0").exit_code == 2
