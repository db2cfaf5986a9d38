"""A working directory with a folder named ``securefl``, as a clone's, hides no editable installation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases.users.play import linear, scenario
from tests.live.federated import BROKERS, environment

pytestmark = pytest.mark.live
PROGRAM = Path(sys.executable).with_name("securefl")

SITE = """
import securefl
import torch

def site(name):
    rows = [(torch.ones(8, 4), torch.ones(8, 1))]
    steps = lambda weights: torch.optim.SGD(weights, lr=0.1)
    return securefl.TorchSite(torch.nn.Linear(4, 1), rows, torch.nn.functional.mse_loss, steps, samples=8)
"""
SPAWNED = """
import multiprocessing
from pathlib import Path
from securefl.scenario import own_parts_from
if __name__ == "__main__":
    own_parts_from(Path())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(eval, ("__import__('securefl').load.__name__",)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "securefl").mkdir()
    (tmp_path / "securefl" / "README.md").touch()
    (tmp_path / "clinics.py").write_text(SITE)
    scenario(tmp_path, {name: weight.detach().numpy() for name, weight in linear().named_parameters()}, 1)
    return tmp_path


@pytest.mark.parametrize("broker", BROKERS)
def test_a_run_trains_its_sites(broker: str, folder: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "run", "f.toml", "--site", "clinics:site", "--broker", broker, "--out", "out"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["outcome"]["rounds"] == 1


def test_a_process_that_imports_anew_finds_the_library(folder: Path) -> None:
    (folder / "tool.py").write_text(SPAWNED)
    done = subprocess.run(
        [sys.executable, "-P", "tool.py"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "load\n", done.stderr
