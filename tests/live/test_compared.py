"""The scripts of docs/frameworks.md run in environments of their own and reach the accuracies of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "compared"
PAGE = ROOT / "docs" / "frameworks.md"
ROUNDS = 20
VARIANTS = {
    "securefl": {},
    "securefl, single updates": {
        '{"model":': '{"secure_sum": {"kind": "plain", "k_anonymity": 1}, "clustering.size": 1,'
        ' "leakage.mode": "report", "model":'
    },
    "securefl, mean": {"= TrimmedMean(trim=1)": "= securefl.rules.Mean()"},
    "byzfl": {},
    "pfl": {},
    "flower": {},
}
"""Rows of the page, and edits of the script by which they differ from it."""

pytestmark = [pytest.mark.live, pytest.mark.interop]


def python(framework: str) -> Path:
    """Return the interpreter that ``make compared`` installs the framework for."""
    return Path(sys.executable) if framework == "securefl" else ROOT / f".venv-{framework}" / "bin" / "python"


def measured(row: str, folder: Path) -> tuple[list[float], float, float]:
    """Return accuracies by round, seconds in all and seconds a round, without the first."""
    framework = row.partition(",")[0]
    text = (SCRIPTS / f"with_{framework}.py").read_text()
    for old, new in VARIANTS[row].items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "script.py").write_text(text)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{SCRIPTS}",
        "PYTHONUNBUFFERED": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
    }
    begun = time.monotonic()
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [python(framework), "script.py"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert process.stdout is not None
        lines = [(line, time.monotonic()) for line in process.stdout]
        code = process.wait()
    assert code == 0, (folder / "errors").read_text()[-3000:]
    rounds = [(float(line), at) for line, at in lines if re.fullmatch(r"[01]\.\d+", line.strip())]
    assert len(rounds) == ROUNDS
    seconds = (rounds[-1][1] - rounds[0][1]) / (ROUNDS - 1)
    return [accuracy for accuracy, _ in rounds], time.monotonic() - begun, seconds


def stated(name: str) -> list[float]:
    """Return the accuracies of the page after rounds 1, 5, 10 and 20."""
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |"))
    return [float(cell) for cell in row.split("|")[2:6]]


@pytest.mark.parametrize("row", VARIANTS)
def test_script(row: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accuracies, seconds, by_round = measured(row, tmp_path)
    found = [accuracies[round_ - 1] for round_ in (1, 5, 10, 20)]
    with capsys.disabled():
        shown = " | ".join(f"{one:.3f}" for one in found)
        print(f"\n| {row} | {shown} | {seconds:.1f} s | {1000 * by_round:.0f} ms a round |")
    np.testing.assert_allclose(found, stated(row), atol=0.02)
