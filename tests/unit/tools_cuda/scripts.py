"""Units that are small scripts, and a runner around them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
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
    """A runner whose console is a list; ``on_text`` sees each line of it."""

    def __init__(
        self,
        folder: Path,
        *,
        seconds: float = 300.0,
        on_text: Callable[[str], object] = str,
        **setting: str,
    ) -> None:
        self.said: list[str] = []
        self._on_text = on_text
        self.file = LineFile(folder / "out" / NAME)
        self.runner = Runner(
            self.file, Clock(seconds), {**SETTING, **setting}, dict(os.environ), folder, self._echo
        )

    def _echo(self, text: str) -> None:
        self.said.append(text)
        self._on_text(text)

    def lines(self, kind: str) -> list[Any]:
        """Return the lines of a kind."""
        return [line for line in self.file.lines if line["kind"] == kind]
