"""Examples with other frameworks, in the environment that ``make examples`` builds for them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APART = ROOT / ".venv-examples"
"""Made by ``make examples``."""

pytestmark = [pytest.mark.live, pytest.mark.interop]


def copied(name: str, to: Path) -> Path:
    return shutil.copytree(ROOT / "examples" / name, to / "own")


def python(arguments: str, folder: Path) -> str:
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
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    ("name", "site"),
    [("lightning", "ward:Ward"), ("hf_trainer", "ward:Ward")],
)
def test_commands_of_the_scenario(name: str, site: str, tmp_path: Path) -> None:
    """Those at its head; its own expectation says how good the model has to be."""
    folder = copied(name, tmp_path)
    python(f"-m securefl site weights {site} --out initial.safetensors", folder)
    before = {path.name for path in folder.iterdir()}
    python(f"-m securefl run federation.toml --site {site} --broker embedded --out out", folder)
    left = {path.name for path in folder.iterdir()} - before - {"__pycache__"}
    assert left == {"out"}, "checkpoints or logs"
