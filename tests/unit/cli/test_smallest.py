"""The smallest scenario with an active server, privacy and sites: 12 lines at most, and it runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from securefl.methods.feasibility.limits import check
from securefl.scenario.load import load_scenario
from tests.unit.cli.programs import call

EXAMPLES = Path(__file__).parents[3] / "examples"
SMALLEST = EXAMPLES / "smallest" / "federation.toml"


def test_it_has_twelve_lines_at_most_and_protects_against_an_active_server() -> None:
    scenario = load_scenario(SMALLEST)
    assert len(SMALLEST.read_text().splitlines()) <= 12
    assert (scenario.secure_sum.server, scenario.privacy.unit) == ("active", "party")
    assert scenario.secure_sum.verified
    assert scenario.model.by_sites
    assert check(scenario).quorum is not None


def test_it_runs_with_the_site_of_another_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLES / "own_training" / "hospital.py", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    site = ("hospital:Hospital",)
    assert call("site", "weights", *site, "--out", "initial.safetensors").exit_code == 0
    done = call("simulate", SMALLEST, "--site", *site, "--out", "run", "--set", "stop.rounds=2")
    assert done.exit_code == 0, done.stderr
    assert "differential privacy: epsilon" in done.output
    assert (tmp_path / "run" / "model.safetensors").exists()
