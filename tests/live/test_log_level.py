"""``securefl --log-level``: processes of a run log connections, frames and steps, and no payload."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.live.deployed import site
from tests.live.federated import LIMIT

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


def test_info_has_connections_and_events_only(tmp_path: Path) -> None:
    lines = logged("info", tmp_path / "run", as_variable=True)
    assert {line[1] for line in lines} == {"INFO"}
    assert len(lines) >= 13
    assert not any(" sends " in line[3] for line in lines)


FIELDS = {"time", "level", "logger", "run", "party", "round", "message"}
SECRET = re.compile(r"[0-9A-Fa-f]{32,}|[0-9A-Za-z+/_-]{43,}={0,2}|b'|\\\\x[0-9a-f]{2}")
"""Sixteen bytes or more in hexadecimal, 32 in base64, or bytes as Python shows them."""


def secrets_in(line: str, keys: Sequence[bytes]) -> list[str]:
    """Parts of a line that may be a key, a seed or a share: known keys in any form, long runs of bytes."""
    message = re.sub(r"mqtts?://\S+|sfl/\S+", "", line)
    forms = [form for key in keys for form in (key.hex(), base64.b64encode(key).decode().rstrip("="))]
    return SECRET.findall(message) + [form for form in forms if form in line]


def test_a_secret_in_a_line_is_noticed() -> None:
    key = bytes(range(200, 232))
    for line in (key.hex(), key.hex()[:32], base64.b64encode(key).decode(), repr(key)):
        assert secrets_in(f"p00: seed {line}", [key]), line
    assert not secrets_in("p00 sends 1234 bytes to sfl/run-12345678/up/p00/0", [key])


def test_json_lines_of_all_processes_have_run_party_and_round_and_no_secret(tmp_path: Path) -> None:
    with site(tmp_path, "embedded", rounds=2) as place:
        how = {"SECUREFL_LOG_LEVEL": "debug", "SECUREFL_LOG_FORMAT": "json"}
        programs: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("server", *place.parties):
            words = [sys.executable, "-m", "securefl", *place.arguments(name)]
            with (tmp_path / f"{name}.log").open("wb") as log:
                programs[name] = subprocess.Popen(
                    words, stdout=subprocess.DEVNULL, stderr=log, env=os.environ | how
                )
        try:
            for program in programs.values():
                program.wait(LIMIT)
        finally:
            for program in programs.values():
                program.kill()
        said = {name: (tmp_path / f"{name}.log").read_text() for name in programs}
        keys = [part for name in programs for part in bytes_in((place.folder / f"{name}.key").read_text())]
    assert len(keys) == 2 * len(programs)
    for name, text in said.items():
        assert programs[name].returncode == 0, text
        lines = [json.loads(line) for line in text.splitlines()]
        assert all(set(line) == FIELDS for line in lines)
        assert all(datetime.fromisoformat(line["time"]).utcoffset() == timedelta() for line in lines)
        inside = [line for line in lines if line["run"] is not None]
        assert {(line["run"], line["party"]) for line in inside} == {(place.run, name)}
        assert {0, 1} <= {line["round"] for line in inside}
        assert [found for line in text.splitlines() if (found := secrets_in(line, keys))] == []


def bytes_in(key_file: str) -> list[bytes]:
    """The private keys of a key file."""
    return [bytes.fromhex(word) for word in re.findall(r'^(?:signing|sealing)_key = "(\w+)"', key_file, re.M)]


def test_a_format_that_does_not_exist_is_refused_in_one_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "securefl", "--log-format", "xml", "doctor"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "--log-format" in line
    assert "json" in line
