"""Run folders that were moved: audits and verification find what they need, or refuse with exit code 2."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from securefl.training.models.tensors import write_tensors
from tests.live.federated import run_program
from tests.unit.cli.programs import call, refusal

pytestmark = pytest.mark.live

SITE = """
import numpy as np

class Ward:
    samples = 20
    def __init__(self, name):
        self.name = name
    def parameters(self):
        return {"w": np.zeros(10, np.float32)}
    def fit(self, parameters, context):
        return {"w": parameters["w"] + np.linspace(0, .1, 10, dtype=np.float32)}, 20, {}
"""
TORCH_SITE = """
import torch
import securefl
from torch.utils.data import DataLoader, TensorDataset

def Ward(name):
    torch.manual_seed(int(name[1:]))
    x, y = torch.randn(20, 30), torch.randint(0, 2, (20,))
    model = torch.nn.Sequential(
        torch.nn.Linear(30, 150), torch.nn.BatchNorm1d(150), torch.nn.ReLU(), torch.nn.Linear(150, 2)
    )
    def evaluate(model):
        return 20, {"loss": min(7.0, float(torch.nn.functional.cross_entropy(model(x), y)))}
    return securefl.TorchSite(
        model,
        DataLoader(TensorDataset(x, y), batch_size=10),
        loss=torch.nn.functional.cross_entropy,
        optimiser=lambda weights: torch.optim.SGD(weights, lr=0.1),
        buffers="average",
        personal=["3.*"],
        evaluate=evaluate,
    )
"""
VERIFIED = """
name = "elsewhere"
parties = 6
[model]
type = "weights"
file = "w.safetensors"
[clustering]
size = 6
[secure_sum]
server = "active"
verify = "committee"
colluders = 1
colluders_per_cluster = 1
threshold = 4
min_survivors = 4
[stop]
rounds = 2
"""
METRICS = """
name = "layers"
parties = 4
[model]
type = "weights"
file = "w.safetensors"
[clustering]
size = 4
[secure_sum]
threshold = 3
min_survivors = 3
[evaluation]
samples = 20
repeats = "accept"
[[evaluation.metrics]]
name = "loss"
kind = "mean"
upper = 8
better = "lower"
[stop]
rounds = 2
"""


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the run, from which its scenario names files."""
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "ward_elsewhere.py").write_text(SITE)
    (folder / "torch_ward_elsewhere.py").write_text(TORCH_SITE)
    (folder / "verified.toml").write_text(VERIFIED)
    (folder / "layers.toml").write_text(METRICS)
    monkeypatch.chdir(folder)
    return folder


def moved(run: Path, case: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run folder at another place, and nothing else of the run there."""
    other = case.parent / "other machine"
    other.mkdir()
    shutil.move(run, other / "run")
    (case / "w.safetensors").unlink()
    monkeypatch.chdir(other)
    return other / "run"


def test_a_moved_run_is_verified_with_its_copy_and_refused_without(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the file of the first model, 24 breaches of an honest run were reported."""
    write_tensors(case / "w.safetensors", {"w": np.zeros(10, np.float32)})
    ended = run_program(case / "verified.toml", case / "run", "--site", "ward_elsewhere:Ward")
    assert ended.exit_code == 0, ended.stderr
    run = moved(case / "run", case, monkeypatch)
    verify, audit = ("verify", run), ("audit", run, "--force")
    for command in (verify, audit):
        done = call(*command)
        assert done.exit_code == 0, done.output
    copy = run / "first.safetensors"
    content = copy.read_bytes()
    copy.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for command in (verify, audit):
        assert "first.safetensors differs from it" in refusal(call(*command))
    copy.unlink()
    for command in (verify, audit):
        told = refusal(call(*command))
        assert "the run started from the model file w.safetensors" in told
        assert "it is missing" in told
    # Where the scenario has it, it counts as well.
    Path("w.safetensors").write_bytes(content)
    assert call(*verify).exit_code == 0


def test_buffers_and_personal_layers_are_audited_without_a_breach(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than 4,096 parameters travel, metrics behind them, and averaged buffers among them."""
    made = call("site", "weights", "torch_ward_elsewhere:Ward", "--out", "w.safetensors")
    assert made.exit_code == 0, made.output
    ended = run_program(case / "layers.toml", case / "run", "--site", "torch_ward_elsewhere:Ward")
    assert ended.exit_code == 0, ended.stderr
    assert all(row["metrics"]["loss"] for row in ended.rows)
    assert "error" not in (case / "run" / "p00.site.jsonl").read_text()
    done = call("audit", moved(case / "run", case, monkeypatch))
    assert done.exit_code == 0, done.output
    assert "bit for bit on 4,096 sampled coordinates" in " ".join(done.output.split())
