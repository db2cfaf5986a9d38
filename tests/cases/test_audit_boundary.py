"""Audits of honest runs hold at every number of parameters (users/19), also where vectors are sampled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.federated import environment

pytestmark = pytest.mark.live

CASE = Path(__file__).parent / "users"
SIZES = ("10", "4095", "4096", "4097")
"""Sizes of the script that take little time; without the variable it does 1,200,000 as well."""


@pytest.mark.parametrize("site", ["tiny:T", "tiny_layers:site"])
def test_no_honest_server_is_accused_beside_the_number_of_samples(site: str, tmp_path: Path) -> None:
    """Each size trains, and its audit ends with exit code 0."""
    folder = tmp_path / "case"
    shutil.copytree(CASE, folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "19_audit_boundary.sh"],
        cwd=folder,
        env={**environment(), "PATH": path, "SIZES": " ".join(SIZES), "SITE": site},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:4] for line in lines] == [
        [f"D={size}", metrics, "run=0", "audit=0"] for size in SIZES for metrics in ("metrics", "none")
    ]
