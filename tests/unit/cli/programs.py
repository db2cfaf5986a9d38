"""Running the command line in this process, and what a refusal looks like."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from unittest.mock import patch

from typer.main import get_command
from typer.testing import CliRunner, Result

from securefl.cli.app import app

_command_of = cache(get_command)
"""To inspect the parameters of every command takes longer than most refusals: once is enough."""
ANSI = re.compile(r"\x1b\[[0-9;]*[a-zA-Z]")

SCENARIO = """
name = "small"
parties = 6
[data]
set = "digits"
train_limit = 120
test_limit = 50
[model]
type = "softmax"
[training]
device = "cpu"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 1
"""


def write_scenario(folder: Path, text: str = SCENARIO) -> Path:
    path = folder / "small.toml"
    path.write_text(text)
    return path


def call(*arguments: str | Path, width: int = 120) -> Result:
    shown = {"COLUMNS": str(width), "TERM": "dumb", "NO_COLOR": "1"}
    with patch("typer.testing._get_command", _command_of):
        return CliRunner().invoke(app, [str(one) for one in arguments], env=shown)


def refusal(result: Result, code: int = 2) -> str:
    """The one line on stderr of a program that ended with this code, without its first word."""
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code == code, result.stderr
    lines = ANSI.sub("", result.stderr).splitlines()
    assert len(lines) == 1, result.stderr
    verdict, _, reason = lines[0].partition(" ")
    assert verdict == {2: "refused", 3: "aborted", 5: "refused"}[code]
    assert reason.isprintable()
    return reason


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
