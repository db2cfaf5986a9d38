from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.cuda.processes import Ended, run_command

# The child ignores SIGTERM and holds the FIFO "held" open: its end is the end of that file.
FAMILY = """
( trap '' TERM; exec 3>held; printf x >&3; echo ready >go; read never <never ) &
read ready <go
"""
HANGS = "read never <never\n"


def run(
    text: str, *arguments: str, seconds: float = 60.0, folder: Path, grace: float = 5.0
) -> tuple[Ended, list[str]]:
    lines: list[str] = []
    ended = run_command(
        [sys.executable, "-c", text, *arguments],
        seconds=seconds,
        on_line=lines.append,
        environment=os.environ,
        folder=folder,
        grace=grace,
    )
    return ended, lines


def test_lines_and_exit_code_are_passed_on(tmp_path: Path) -> None:
    text = "import sys\nprint('a')\nprint('b', end='')\nprint('bad', file=sys.stderr)\nsys.exit(7)"
    ended, lines = run(text, folder=tmp_path)
    assert (ended.code, ended.in_time, ended.errors) == (7, True, ("bad",))
    assert lines == ["a", "b"]


def test_long_output_without_line_ends_does_not_block(tmp_path: Path) -> None:
    ended, lines = run(
        "import sys\nsys.stdout.write('x' * 1000000)\nsys.stderr.write('y' * 1000000)", folder=tmp_path
    )
    assert ended.code == 0
    assert [len(line) for line in lines] == [1_000_000]
    assert [len(line) for line in ended.errors] == [1_000_000]


def test_a_command_that_hangs_is_terminated(tmp_path: Path) -> None:
    ended, lines = run(
        "import signal\nprint('there', flush=True)\nsignal.pause()", seconds=2.0, folder=tmp_path
    )
    assert (ended.code, ended.in_time) == (-signal.SIGTERM, False)
    assert lines == ["there"]


def test_a_command_that_ignores_sigterm_is_killed(tmp_path: Path, fifos: int) -> None:
    ended = shell(f"trap '' TERM\nexec 3>held\nprintf x >&3\n{HANGS}", tmp_path, seconds=2.0)
    assert (ended.code, ended.in_time) == (-signal.SIGKILL, False)
    assert until_end(fifos) == b"x"


def test_a_command_that_ends_leaves_no_child(tmp_path: Path, fifos: int) -> None:
    ended = shell(FAMILY + "exit 7", tmp_path, seconds=60.0)
    assert (ended.code, ended.in_time) == (7, True)
    assert until_end(fifos) == b"x"


def test_a_command_that_is_stopped_leaves_no_child(tmp_path: Path, fifos: int) -> None:
    ended = shell(FAMILY + HANGS, tmp_path, seconds=2.0)
    assert (ended.code, ended.in_time) == (-signal.SIGTERM, False)
    assert until_end(fifos) == b"x"


def raises(_line: str) -> None:
    raise KeyboardInterrupt


def signals(_line: str) -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("on_line", [raises, signals])
def test_an_interrupt_leaves_no_child(tmp_path: Path, fifos: int, on_line: Callable[[str], None]) -> None:
    former = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        shell(FAMILY + "echo there\n" + HANGS, tmp_path, seconds=60.0, on_line=on_line)
    assert until_end(fifos) == b"x"
    assert signal.getsignal(signal.SIGINT) is former


def shell(text: str, folder: Path, seconds: float, on_line: Callable[[str], None] = print) -> Ended:
    """Run a script of the shell, which starts within milliseconds."""
    return run_command(
        ["sh", "-c", text], seconds=seconds, on_line=on_line, environment=os.environ, folder=folder, grace=0.2
    )


def until_end(reader: int) -> bytes:
    """Read until no process has the other end any more."""
    os.set_blocking(reader, True)
    return b"".join(iter(lambda: os.read(reader, 10), b""))


@pytest.fixture
def fifos(tmp_path: Path) -> Iterator[int]:
    """The reading end of ``held``, beside ``go`` and ``never``, which nothing is written to."""
    for name in ("held", "go", "never"):
        os.mkfifo(tmp_path / name)
    # Who opens these two to read is not kept waiting for a writer.
    kept = [os.open(tmp_path / name, os.O_RDWR) for name in ("go", "never")]
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    yield reader
    for descriptor in (reader, *kept):
        os.close(descriptor)
