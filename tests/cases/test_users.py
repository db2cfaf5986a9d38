"""Users' cases: bug reports about federated training elsewhere, tried here. Each exits with 0 if right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.federated import environment

CASES = Path(__file__).parent / "users"
ROOT = Path(__file__).parents[2]


@pytest.mark.live
@pytest.mark.parametrize("case", sorted(CASES.glob("case_*.py")), ids=lambda path: path.stem)
def test_the_result_is_right(case: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, str(case)],
        cwd=tmp_path,
        env={**environment(), "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
