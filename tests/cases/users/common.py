"""Parts of the users' cases. Each case exits with 0 if its result is right, 1 if not, 2 if it is refused."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch

import securefl
from tests.cases.users import play as parts

torch.set_num_threads(1)
WORK = Path(tempfile.mkdtemp(prefix="case-", dir=Path.cwd()))


def scenario(first: Mapping[str, Any], rounds: int = 2, more: str = "", name: str = "f") -> Path:
    return parts.scenario(WORK, first, rounds, more, name)


def play(site: Callable[[str], Any], rounds: int = 2, more: str = "", name: str = "f") -> securefl.RunResult:
    return parts.play(WORK, site, rounds, more, name)


def cli(*words: object) -> tuple[int, str]:
    command = ["securefl", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=WORK, check=False)
    return done.returncode, done.stdout + done.stderr


def verdict(*, ok: bool, got: object, right: str) -> NoReturn:
    print("as it should be" if ok else "WRONG", "\n  got:  ", got, "\n  right:", right)
    sys.exit(0 if ok else 1)
