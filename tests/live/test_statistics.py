"""``securefl statistics`` as people use it: simulated, then written out and run by processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.federated import BROKERS, PATIENT, run_program
from tests.simulation.test_statistics import TEXT
from tests.unit.cli.programs import call, refusal

pytestmark = pytest.mark.live
SITE = """
import numpy as np

class Ward:
    def __init__(self, name):
        rng = np.random.default_rng(int(name[1:]))
        self.samples = 20
        self.table = {"dose": rng.normal(1, 1, 20), "outcome": rng.integers(0, 2, 20), "name": ["x"] * 20}
    def parameters(self):
        raise RuntimeError("nobody asks")
    def fit(self, parameters, context):
        raise RuntimeError("nobody trains")
    def columns(self):
        return self.table
"""


def pooled(folder: Path) -> Any:
    """Its statistics, but for the range over clusters: the run draws others."""
    told = json.loads((folder / "statistics.json").read_text())
    for one in told["features"].values():
        del one["mean_range"]
    return told


@pytest.mark.parametrize("broker", BROKERS)
def test_processes_pool_what_a_simulation_pools(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ward_with_columns.py").write_text(SITE)
    file = tmp_path / "columns.toml"
    file.write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    here = call(
        "statistics", file, "--site", "ward_with_columns:Ward", "--out", tmp_path / "here", "--seed", "3"
    )
    assert here.exit_code == 0, here.stderr
    assert "Metrics of the sites:" in here.stdout
    assert "means of clusters" in here.stdout
    assert "dose" in here.stdout
    written = tmp_path / "round.toml"
    assert call("statistics", file, "--write", written).exit_code == 0
    arguments = ("--site", "ward_with_columns:Ward", "--seed", "3", *PATIENT, "--broker", broker)
    ran = run_program(written, tmp_path / "run", *arguments)
    assert ran.exit_code == 0, ran.stderr
    assert pooled(tmp_path / "run") == pooled(tmp_path / "here")


def test_without_columns_or_site_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "columns.toml"
    file.write_text(TEXT)
    assert "--site: is missing" in refusal(call("statistics", file))
    lacking = call("statistics", file, "--set", "statistics={}", "--write", tmp_path / "x.toml")
    assert "statistics.features: is missing" in refusal(lacking)
    assert not (tmp_path / "x.toml").exists()
