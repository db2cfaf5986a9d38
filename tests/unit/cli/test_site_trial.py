"""``securefl site check`` names what it can see of a site: rows, arrays, metrics, seeds, and the lock."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.users import play
from tests.unit.cli.programs import call

SITES = """
import numpy as np
import torch
import securefl
from tests.cases.users.play import MSE, loader, sgd

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.last = torch.nn.Linear(4, 4)
        self.last.weight = self.first.weight
        self.out = torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.out(self.last(self.norm(self.first(x))))

def judged(model):
    return 30, {"mse": True, "other": "text"}

def clinic(name):
    return securefl.TorchSite(Net(), loader(30, drop_last=True), MSE, sgd(0.05), evaluate=judged)

def wide(name):
    rows = [(x.double(), y.double()) for x, y in loader(32)]
    return securefl.TorchSite(Net().double(), rows, MSE, sgd(0.05), samples=32)

def far_off(model, context):
    with torch.no_grad():
        model.out.bias += 1e4

def far(name):
    return securefl.TorchSite(Net(), loader(32), MSE, sgd(1e3), train=far_off)

class Own:
    samples = 32
    def __init__(self, name):
        self.net = Net()
        self.draws = np.random.default_rng()
    def parameters(self):
        return {n: w.detach().numpy() for n, w in self.net.named_parameters()}
    def fit(self, parameters, context):
        noise = {n: self.draws.normal(size=w.shape).astype("f4") for n, w in parameters.items()}
        return {n: w + noise[n] / 100 for n, w in parameters.items()}, 20, {}

class Single(Own):
    made = 0
    def __init__(self, name):
        Single.made += 1
        if Single.made > 1:
            raise OSError("database is locked")
        super().__init__(name)

class Seeded(Own):
    def __init__(self, name):
        super().__init__(name)
        self.draws = np.random
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "sites_of_trials.py").write_text(SITES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("sites_of_trials", None)


@pytest.fixture
def scenario(tmp_path: Path, module: None) -> Path:
    import sites_of_trials  # type: ignore[import-not-found]  # noqa: PLC0415 - written by the fixture

    made = sites_of_trials.clinic("p00").parameters()
    return play.scenario(tmp_path, made, 2, '[evaluation]\nrepeats = "accept"\n', "trial")


def checked(scenario: Path, site: str) -> str:
    done = call("site", "check", scenario, f"sites_of_trials:{site}", width=500)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_rows_arrays_and_metrics_are_named(scenario: Path) -> None:
    said = checked(scenario, "clinic")
    assert "7 arrays, 37 parameters: first.bias (4,), first.weight (4, 4)" in said
    assert "3 arrays kept at the site: norm.running_mean, norm.running_var, norm.num_batches_tracked" in said
    assert "tied parameters are sent once: last.weight is first.weight" in said
    assert "metric dropped: evaluate returned the metric mse = True, expected a number" in said
    assert "metric dropped: evaluate returned the metric other = 'text', expected a number" in said
    assert "differ by" not in said
    assert "more digits" not in said


def test_other_dtypes_and_large_updates_are_named(scenario: Path) -> None:
    assert "the model is sent as float32, but first.weight, first.bias" in checked(scenario, "wide")
    assert "are cut off: raise encoding.range" in checked(scenario, "far")


def test_a_training_that_no_seed_repeats_is_named(scenario: Path) -> None:
    said = checked(scenario, "Own")
    assert "two trainings from one seed differ by 0.0" in said
    assert "7 arrays, 37 parameters: first.bias (4,), first.weight (4, 4)" in said
    assert "differ by" not in checked(scenario, "Seeded")


def test_findings_are_kept_beside_the_scenario(scenario: Path) -> None:
    said = checked(scenario, "Own")
    file = scenario.with_name("trial.p00.check.json")
    assert f"findings: {file}" in said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = json.loads(file.read_text())
    assert found["site"] == "sites_of_trials:Own"
    assert (found["party"], found["samples"], found["repeats"]) == ("p00", 20, False)
    assert found["interpreter_lock_seconds"] < 60
    assert all(line in said for line in found["findings"])


def test_a_long_training_is_done_once(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("securefl.cli.site.REPEAT_SECONDS", -1.0)
    assert "differ by" not in checked(scenario, "Own")
    assert json.loads(scenario.with_name("trial.p00.check.json").read_text())["repeats"] is None


def test_a_site_fits_although_its_findings_cannot_be_written(scenario: Path) -> None:
    scenario.with_name("trial.p00.check.json").mkdir()
    assert "trial.p00.check.json cannot be written: Is a directory" in checked(scenario, "Seeded")


def test_values_that_go_into_the_file_of_the_first_model_are_named(tmp_path: Path) -> None:
    written = call("site", "weights", "sites_of_trials:clinic", "--out", tmp_path / "f", width=500)
    assert "3 arrays kept at the sites: norm.running_mean" in written.stdout
    assert "the file holds their values at this site" in written.stdout
    written = call("site", "weights", "sites_of_trials:Own", "--out", tmp_path / "g", width=500)
    assert "the file holds" not in written.stdout


def test_a_site_that_can_be_made_only_once_is_no_failure(scenario: Path) -> None:
    said = checked(scenario, "Single")
    assert "7 arrays, 37 parameters: first.bias (4,), first.weight (4, 4)" in said
    assert "database is locked" in said
    assert json.loads(scenario.with_name("trial.p00.check.json").read_text())["repeats"] is None
