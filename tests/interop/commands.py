"""Commands and environments that these tests share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from securefl.scenario import Scenario, load_scenario
from securefl.training.models.tensors import write_tensors
from securefl.training.sites import maker_of, open_site

ROOT = Path(__file__).parents[2]
FLOWER = ROOT / ".venv-flower" / "bin" / "python"
NVFLARE = ROOT / ".venv-nvflare" / "bin" / "python"
LIMIT = 300.0
"""Seconds after which a command counts as hanging."""
FEDERATION = """
name = "small"
parties = 2
[model]
type = "weights"
file = "{}"
[clustering]
size = 2
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 3
"""


def command(words: list[str], folder: Path, **environment: str) -> str:
    """What a command prints, which must succeed."""
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def securefl(line: str, folder: Path) -> str:
    return command([sys.executable, "-m", "securefl", *line.split("|")], folder)


def evaluated(folder: Path, metric: str) -> list[float]:
    """The metric of the models that the rounds of a run began with."""
    rounds = json.loads((folder / "summary.json").read_text())["rounds"]
    return [entry["metrics"][metric]["value"] for entry in rounds]


def federation(folder: Path, arrays: dict[str, Any], **more: Any) -> Scenario:
    """A scenario of two parties whose first model is ``arrays``; ``more`` as of ``write_tensors``."""
    file = folder / "initial.safetensors"
    write_tensors(file, arrays, **more)
    (folder / "federation.toml").write_text(FEDERATION.format(file))
    return load_scenario(folder / "federation.toml")


def site_of(name: str, scenario: Scenario, python: Path) -> Any:
    """The site of the first party, in a process of its own."""
    site, _ = open_site(maker_of(name, scenario, python, 0), "p00")  # type: ignore[arg-type]
    return site
