"""A run in which no site trains is no success (users/08, users/20); with privacy it is no signal either."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import securefl
from tests.live.federated import run_program
from tests.unit.cli.programs import call

SITES = """
import numpy as np, torch, securefl
from torch.utils.data import DataLoader, TensorDataset

class Base:
    def __init__(self, name):
        self.name, self.samples = name, 20
    def parameters(self):
        return {"w": np.zeros(4, np.float32)}

class Raises(Base):
    def fit(self, parameters, context):
        raise RuntimeError("no data")

class OnlyDict(Base):
    def fit(self, parameters, context):
        return {"w": parameters["w"] + 1}

class Some(Base):
    def fit(self, parameters, context):
        if self.name == "p01" and context.number == 1:
            raise RuntimeError("no data today")
        return {"w": parameters["w"] + 1}, 20, {}

class Idle(Base):
    def fit(self, parameters, context):
        return dict(parameters), 20, {}

def Rows(name):
    torch.manual_seed(0)
    x = torch.randn(33, 4)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
    loss = torch.nn.functional.mse_loss
    return securefl.TorchSite(model, data, loss, lambda w: torch.optim.SGD(w, lr=0.05))
"""
SCENARIO = """
name = "untrained"
parties = 3
[model]
type = "weights"
file = "first.safetensors"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 3
[deadlines]
submit = 4
"""
PRIVATE = """
[encoding]
clip = 1
range = 1
scale_bits = 8
[privacy]
unit = "party"
multiplier = 1.0
delta = 0.01
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "wards_untrained.py").write_text(SITES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def scenario(folder: Path, site: str, more: str = "") -> Path:
    made = getattr(importlib.import_module("wards_untrained"), site)("p00")
    securefl.save_weights(folder / "first.safetensors", made.parameters())
    (folder / "untrained.toml").write_text(SCENARIO + more)
    return folder / "untrained.toml"


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "summary.json").read_text())
    return found


def ran(folder: Path, site: str, how: str, more: str = "", *arguments: str) -> tuple[int, str]:
    toml = scenario(folder, site, more)
    words = ("--site", f"wards_untrained:{site}", *arguments)
    if how == "run":
        ended = run_program(toml, folder / "out", *words)
        return ended.exit_code, ended.stdout + ended.stderr
    called = call("simulate", toml, "--out", folder / "out", *words)
    return called.exit_code, called.output


@pytest.mark.parametrize("site", ["Raises", "OnlyDict", "Rows"])
@pytest.mark.parametrize("how", ["simulate", pytest.param("run", marks=pytest.mark.live)])
def test_it_stops_after_the_first_round_with_exit_code_1(how: str, site: str, folder: Path) -> None:
    code, said = ran(folder, site, how)
    assert code == 1
    assert "all 3 trainings of round 0 failed; p00: " in said
    told = summary(folder)
    assert told["exit_code"] == 1
    assert told["exit_meaning"] == "no party trained: every training of a round failed"
    assert [row["failed_trainings"] for row in told["rounds"]] == [3]
    assert told["outcome"]["failed_trainings"] == 3
    assert told["outcome"]["unchanged_rounds"] == 1


@pytest.mark.parametrize("how", ["simulate", pytest.param("run", marks=pytest.mark.live)])
def test_single_failures_are_counted(how: str, folder: Path) -> None:
    code, said = ran(folder, "Some", how)
    assert code == 0, said
    told = summary(folder)
    assert [row["failed_trainings"] for row in told["rounds"]] == [0, 1, 0]
    assert told["outcome"]["failed_trainings"] == 1
    assert told["outcome"]["unchanged_rounds"] == 0


def test_the_python_result_counts_them_too(folder: Path) -> None:
    toml = scenario(folder, "Some")
    result = securefl.simulate(toml, site="wards_untrained:Some", out=folder / "out")
    assert list(result.frame()["failed_trainings"]) == [0, 1, 0]
    assert result.rounds[1].failures == {"p01": "wards_untrained.py:22 in fit: RuntimeError: no data today"}
    stopped = securefl.simulate(
        scenario(folder, "Raises"), site="wards_untrained:Raises", out=folder / "stopped"
    )
    assert stopped.summary.exit_code == 1
    assert len(stopped.rounds) == 1


def test_a_model_that_no_site_moves_is_called_unchanged(folder: Path) -> None:
    """No training failed: the exit code is that of any run, and the console says what happened."""
    code, said = ran(folder, "Idle", "simulate")
    assert code == 0
    assert said.count("the model did not change") >= 3
    assert "the model was not trained: it is the initial model" in said
    assert "0 rounds with a new model" in said


@pytest.mark.live
def test_with_privacy_no_count_leaves_the_party(folder: Path) -> None:
    """Neither console nor run folder nor exit code tell that every training failed; the parties' logs do."""
    code, said = ran(folder, "Raises", "run", PRIVATE)
    assert code == 0, said
    assert "no data" not in said
    assert "zeros" not in said
    told = summary(folder)
    assert len(told["rounds"]) == 3
    assert "failed_trainings" not in json.dumps(told)
    assert "failed_trainings" not in (folder / "out" / "metrics.jsonl").read_text()
    for party in ("p00", "p01", "p02"):
        lines = (folder / "out" / f"{party}.site.jsonl").read_text().splitlines()
        assert sum("no data" in line for line in lines) == 3


@pytest.mark.live
def test_the_lab_counts_with_privacy_too(folder: Path) -> None:
    code, _ = ran(folder, "Raises", "run", PRIVATE, "--lab")
    assert code == 1
    assert [row["failed_trainings"] for row in summary(folder)["rounds"]] == [3]


def test_a_simulation_counts_with_privacy_too(folder: Path) -> None:
    code, said = ran(folder, "Raises", "simulate", PRIVATE)
    assert code == 1, said


def test_rows_are_read_again(folder: Path) -> None:
    ran(folder, "Some", "simulate")
    rows = [json.loads(line) for line in (folder / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [row["failed_trainings"] for row in rows] == [[], ["p01"], []]
    assert np.isfinite(rows[0]["update_norm"])
