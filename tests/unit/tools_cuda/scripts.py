"""Units that are small scripts, and a runner around them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tools.cuda.lines import NAME, LineFile
from tools.cuda.runner import Clock, Runner, Unit

SETTING = {
    "machine": "no GPU, 2 processors",
    "run": "2026-01-01T00:00:00+00:00",
    "code": "c0de",
    "commit": "abc",
}


def unit(folder: Path, text: str, *, name: str = "measure", **fields: Any) -> Unit:
    """Write a script and return the unit that runs it."""
    script = folder / f"{name}.py"
    script.write_text(text, encoding="utf-8")
    settings: dict[str, Any] = {"device": "cpu", "estimate": 0.0, "limit": 60.0, **fields}
    return Unit(name=name, command=(sys.executable, str(script)), **settings)


class Bench:
    """A runner whose console is a list."""

    def __init__(self, folder: Path, *, seconds: float = 300.0, **setting: str) -> None:
        self.said: list[str] = []
        self.file = LineFile(folder / "out" / NAME)
        self.runner = Runner(
            self.file, Clock(seconds), {**SETTING, **setting}, dict(os.environ), folder, self.said.append
        )

    def lines(self, kind: str) -> list[Any]:
        """Return the lines of a kind."""
        return [line for line in self.file.lines if line["kind"] == kind]
