"""An ``nvidia-smi`` on the path: a script that prints what a test wants."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

FakeSmi = Callable[..., None]
"""Takes the output by query, as in ``gpu={"name": "..."}``, or ``code``, the exit code of each call."""


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSmi:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def make(code: int = 0, **answers: str) -> None:
        cases = "".join(
            f"--query-{query.replace('_', '-', 1)}) cat <<'END'\n{text}\nEND\n;;\n"
            for query, text in answers.items()
        )
        script = folder / "nvidia-smi"
        # The format has to be the one that is parsed.
        script.write_text(
            "#!/bin/sh\n"
            'test "$2" = --format=csv,noheader,nounits || exit 9\n'
            f'case "${{1%%=*}}" in\n{cases}*) exit 8 ;;\nesac\nexit {code}\n'
        )
        script.chmod(0o755)

    return make
