"""Processes as other users, such as those of services."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

_ANY: Final = 42_310
"""A user without a name."""


def as_user(uid: int) -> list[str]:
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def as_agent(uid: int) -> list[str]:
    """Words for a user whose processes start this interpreter themselves.

    Below a closed home, as of root, they need a right for that, to read what is not theirs.
    """
    again = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', ''])"
    words = [*as_user(uid), sys.executable, "-c", again]
    if subprocess.run(words, env=clean(), cwd="/", capture_output=True, check=False).returncode == 0:
        return as_user(uid)
    right = "+dac_read_search"
    return [*as_user(uid), f"--inh-caps={right}", f"--ambient-caps={right}"]


def clean(**given: str) -> dict[str, str]:
    """The environment of a service: nothing of the person who starts the tests."""
    return {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **given}


def others_can_start_it() -> bool:
    """Return True if a user without a name can start this interpreter, and load what a party needs."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    loads = [*as_user(_ANY), sys.executable, "-c", "import torch, securefl.cli.app, sklearn.datasets"]
    return subprocess.run(loads, env=clean(), cwd="/", capture_output=True, check=False).returncode == 0
