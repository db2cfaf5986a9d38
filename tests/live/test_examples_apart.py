"""Examples with other frameworks, in the environment that ``make examples`` builds for them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from safetensors.numpy import load_file

ROOT = Path(__file__).parents[2]
APART = ROOT / ".venv-examples"
"""Made by ``make examples``."""
VISION = {"PYTHONPATH": str(APART / "vision")}
"""torchvision lies apart there, for examples/resnet alone."""

pytestmark = [pytest.mark.live, pytest.mark.interop]


def copied(name: str, to: Path) -> Path:
    return shutil.copytree(ROOT / "examples" / name, to / "own")


def python(arguments: str, folder: Path, **environment: str) -> str:
    """What a program prints, without the network."""
    interpreter = APART / "bin" / "python"
    assert interpreter.exists(), "no environment for these examples: make examples"
    done = subprocess.run(
        [interpreter, *arguments.split()],
        cwd=folder,
        env={
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    ("name", "site"),
    [("lightning", "ward:Ward"), ("hf_trainer", "ward:Ward"), ("resnet", "hospital:Hospital")],
)
def test_commands_of_the_scenario(name: str, site: str, tmp_path: Path) -> None:
    """Those at its head; its own expectation says how good the model has to be."""
    folder, environment = copied(name, tmp_path), VISION if name == "resnet" else {}
    python(f"-m securefl site weights {site} --out initial.safetensors", folder, **environment)
    before = {path.name for path in folder.iterdir()}
    python(
        f"-m securefl run federation.toml --site {site} --broker embedded --out out", folder, **environment
    )
    left = {path.name for path in folder.iterdir()} - before - {"__pycache__"}
    assert left == {"out"}, "checkpoints or logs"
    if name == "resnet":
        travelled = load_file(folder / "out" / "model.safetensors")
        assert "layer1.0.conv1.weight" in travelled
        assert not [other for other in travelled if "bn" in other or "downsample.1" in other]


def test_normalisation_of_their_own_and_averaged(tmp_path: Path) -> None:
    """One seed, one round of its table; docs/examples.md has more."""
    printed = python("compare.py --rounds 1 --seeds 1", copied("resnet", tmp_path), **VISION)
    last = printed.splitlines()[-1]
    accuracies = re.fullmatch(r"mean accuracy: own ([0-9.]+) %, averaged ([0-9.]+) %", last)
    assert accuracies is not None, printed
    assert all(0 < float(accuracy) < 100 for accuracy in accuracies.groups())


def test_lora(tmp_path: Path) -> None:
    """Adapters alone travel, in as many bytes as computed and a little for the protocol."""
    folder = copied("lora", tmp_path)
    printed = python("adapt.py --steps 60 --rounds 3 --out out", folder)
    told = {line.partition(":")[0]: line.partition(": ")[2] for line in printed.splitlines()}
    before, after = (float(part.split()[0]) for part in told["loss"].split(", "))
    assert after < before - 0.05
    model = load_file(folder / "out" / "model.safetensors")
    assert all("lora_" in name for name in model)
    computed = 4 * sum(array.size for array in model.values())
    assert f"= {computed:,} bytes" in told["upload"]
    last = (folder / "out" / "metrics.jsonl").read_text().splitlines()[-1]
    for volumes in json.loads(last)["traffic"].values():
        assert computed < volumes["up"]["bytes"] < computed + 4096
