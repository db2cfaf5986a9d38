"""The contract suites of training on the fake device, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.slow
def test_contracts_hold_on_a_device_that_is_no_cpu() -> None:
    files = [*sorted(HERE.glob("test_device_*.py")), HERE / "waits.py"]
    assert len(files) > 4
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)],
        cwd=ROOT,
        env={**os.environ, "SECUREFL_DEVICE": "fake"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout.splitlines()[-1]
