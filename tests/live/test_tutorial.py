"""The tutorial as it stands: its files, and its commands in their order."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.live.federated import LIMIT, environment

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
OURS = ("python ", "securefl ")
"""Commands that are run; the others make the environment that this is."""
pytestmark = pytest.mark.live


def sections() -> dict[str, str]:
    """By number: what stands under each numbered heading."""
    found = re.findall(r"^## (\d)\. .*?\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE)
    return dict(found)


def files(text: str) -> dict[str, str]:
    """Fenced files, by the name in their first line."""
    blocks = re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return dict(blocks)


def commands(text: str) -> list[str]:
    unfenced = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for line in re.findall(r"^    (.*)$", unfenced, re.MULTILINE) if line.startswith(OURS)]


def call(command: str, port: int) -> list[str]:
    words = shlex.split(command.replace("18830", str(port)))
    return [sys.executable, *(["-m", "securefl"] if words[0] == "securefl" else []), *words[1:]]


def run(command: str, folder: Path) -> str:
    done = subprocess.run(
        call(command, 0), cwd=folder, env=environment(), capture_output=True, text=True, timeout=LIMIT,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def started(command: str, folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    out = subprocess.PIPE
    process = subprocess.Popen(
        call(command, port), cwd=folder, env=environment(), stdout=out, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def loss_of(folder: Path) -> float:
    found: float = json.loads((folder / "summary.json").read_text())["outcome"]["evaluation"]["loss"]
    return found


def test_the_hour(tmp_path: Path) -> None:
    told = sections()
    assert [*told] == list("1234567")
    for text in told.values():
        for name, content in files(text).items():
            (tmp_path / name).write_text(content)
    said = {number: [run(line, tmp_path) for line in commands(told[number])] for number in "23456"}
    assert [len(said[number]) for number in "23456"] == [1, 2, 2, 1, 2]
    assert "4 arrays, 257 parameters" in said["3"][0]
    assert "at sites, of the best model" in said["4"][0]
    assert (tmp_path / "runs/simulated/rounds.png").is_file()
    assert len((tmp_path / "runs/live/p00.site.jsonl").read_text().splitlines()) > 5
    assert loss_of(tmp_path / "runs/median") < 0.2
    assert loss_of(tmp_path / "runs/mean") > 2 * loss_of(tmp_path / "runs/median")
    *keys, broker, server, p00, p01, p02, p03 = commands(told["7"])
    for line in keys:
        run(line, tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ExitStack() as stack:
        stack.enter_context(started(broker, tmp_path, port))
        ran = [stack.enter_context(started(line, tmp_path, port)) for line in (server, p00, p01, p02, p03)]
        ended = [process.communicate(timeout=LIMIT)[0] for process in ran]
    assert [process.returncode for process in ran] == [0] * 5, "\n".join(ended)
    best = {(tmp_path / f"runs/p0{n}/p0{n}.model.safetensors").read_bytes() for n in range(4)}
    assert best == {(tmp_path / "runs/server/best.safetensors").read_bytes()}
