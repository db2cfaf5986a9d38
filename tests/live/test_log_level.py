"""``securefl --log-level``: processes of a run log connections, frames and steps, and no payload."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

LINE = re.compile(
    r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR) securefl\.([\w.]+): (.+)$"
)


def logged(level: str, out: Path, *, as_variable: bool = False) -> list[re.Match[str]]:
    """Lines of the log of a run of one round."""
    option = [] if as_variable else ["--log-level", level]
    words = ["run", "quickstart", "--broker", "embedded", "--set", "stop.rounds=1", "--set", "expect=[]"]
    ended = subprocess.run(
        [sys.executable, "-m", "securefl", *option, *words, "--out", str(out)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | ({"SECUREFL_LOG_LEVEL": level} if as_variable else {}),
    )
    found = [LINE.match(line) for line in ended.stderr.splitlines()]
    assert all(found), ended.stderr
    return [one for one in found if one]


def test_debug_has_frames_and_steps_of_all_processes(tmp_path: Path) -> None:
    lines = logged("debug", tmp_path / "run")
    texts = [line[3] for line in lines]
    for name in ("server", "p00", "p11"):
        assert any(re.match(rf"\S*{name} connected to mqtt://", text) for text in texts)
        assert any(re.match(rf"\S*{name} sends \d+ bytes to sfl/", text) for text in texts)
        assert any(re.match(rf"{name}: \w+, round 0$", text) for text in texts)


def test_info_has_connections_only(tmp_path: Path) -> None:
    lines = logged("info", tmp_path / "run", as_variable=True)
    assert {line[1] for line in lines} == {"INFO"}
    assert len(lines) >= 13
