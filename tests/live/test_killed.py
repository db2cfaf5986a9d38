"""``securefl run`` killed, or ended by a signal: nothing of it is left, neither a process nor a private key.

All is looked at from outside: processes by the kernel's list, files by their contents.
"""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from securefl.runtime.report.rundir import RunDirectory
from tests.live.federated import BROKERS, LIMIT, environment
from tests.live.scenarios import write_scenario
from tests.live.slow import PROGRAM
from tests.unit.cli.programs import call

pytestmark = pytest.mark.live

WITHIN = 30.0
"""Seconds after which nothing may be left: half of what a training takes, which no process may wait for."""
SECRETS = (b"signing_key", b"sealing_key", b"PRIVATE KEY")
"""One of these is in every file with a private key."""


@dataclass
class Launched:
    """``securefl run`` and what it has started."""

    process: subprocess.Popen[str]
    out: Path
    temporary: Path

    def family(self) -> list[psutil.Process]:
        found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return found

    def fork_server(self) -> psutil.Process:
        children = psutil.Process(self.process.pid).children()
        (found,) = [child for child in children if "forkserver" in " ".join(child.cmdline())]
        return found

    def secrets(self) -> list[Path]:
        """Files with a private key, wherever the run can have put one."""
        return [
            path
            for path in (*below(self.out), *below(self.temporary))
            if any(secret in contents_of(path) for secret in SECRETS)
        ]

    def files(self) -> list[Path]:
        """Temporary files. Of its fork server multiprocessing leaves a socket that nobody listens at."""
        return [path for path in below(self.temporary) if not path.name.startswith("listener-")]

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < deadline
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.01)

    def until_a_round_is_over(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if '"round_done"' in line:
                return
        raise AssertionError(self.process.communicate())


def below(folder: Path) -> list[Path]:
    """All files; a folder that goes away meanwhile has none."""
    return [Path(at) / name for at, _, names in os.walk(folder) for name in names]


def contents_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@contextmanager
def launched(folder: Path, *arguments: str, **how: Any) -> Iterator[Launched]:
    scenario = write_scenario(folder, rounds=500)
    # A short path: multiprocessing makes a socket there.
    temporary = Path(tempfile.mkdtemp())
    # Slow, so that nobody says anything and notices that the launcher does not listen any more.
    program = [sys.executable, "-c", PROGRAM]
    process = subprocess.Popen(
        [*program, "run", str(scenario), "--out", str(folder / "run"), "--json", *arguments],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how},
        text=True,
        env={**environment(), "TMPDIR": str(temporary)},
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )
    running = Launched(process, folder / "run", temporary)
    try:
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
        shutil.rmtree(temporary)


def assert_nothing_is_left(family: list[psutil.Process], running: Launched) -> None:
    """Processes that have ended count as gone, whenever whoever inherits them takes note of it."""
    deadline = time.monotonic() + WITHIN
    while (left := [*filter(lives, family), *running.files()]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == []
    assert running.secrets() == []


def lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


KILLED = {
    "launcher": lambda running: [running.process],
    "fork server": lambda running: [running.fork_server()],
    "both": lambda running: [running.fork_server(), running.process],
}


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("whom", ["launcher", "both"])
def test_a_kill_leaves_no_process_and_no_private_key(whom: str, broker: str, tmp_path: Path) -> None:
    assert_a_kill_leaves_nothing(tmp_path, whom, "--broker", broker, "--tls")


def test_a_killed_fork_server_ends_the_run_and_all_of_it(tmp_path: Path) -> None:
    assert_a_kill_leaves_nothing(tmp_path, "fork server")


def assert_a_kill_leaves_nothing(folder: Path, whom: str, *arguments: str) -> None:
    with launched(folder, *arguments) as running:
        running.until_a_round_is_over()
        family = running.family()
        assert len(family) >= 6 + 1 + 3, "parties, server, broker, fork server and who cleans up"
        assert running.secrets() == [], "not even while it runs"
        for victim in KILLED[whom](running):
            victim.send_signal(signal.SIGKILL)
        if whom == "fork server":
            _, complaint = running.process.communicate(timeout=LIMIT)
            assert running.process.returncode == 3
            assert "the run ended: the server process died" in complaint
        assert_nothing_is_left(family, running)
    # What was written until then is whole, or has a gap that is named.
    audited = call("audit", folder / "run")
    assert audited.exit_code == 0, audited.output


@pytest.mark.parametrize("child", [1, 3])
def test_a_kill_in_the_first_moments_leaves_nothing(child: int, tmp_path: Path) -> None:
    """As soon as there is a first or a third child, while the fork server still imports."""
    with launched(tmp_path) as running:
        running.until(lambda: len(running.family()) >= child)
        family = running.family()
        running.process.send_signal(signal.SIGKILL)
        assert_nothing_is_left(family, running)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_as_ctrl_c_does(number: signal.Signals, tmp_path: Path) -> None:
    with launched(tmp_path) as running:
        running.until_a_round_is_over()
        family = running.family()
        # Twice, and to all processes of the session, as service managers and terminals do.
        for _ in range(2):
            os.killpg(running.process.pid, number)
        _, complaint = running.process.communicate(timeout=LIMIT)
        assert running.process.returncode == 3
        assert complaint.splitlines() == [f"aborted by {number.name}; what was written stays"]
        assert_nothing_is_left(family, running)
    directory = RunDirectory.open(tmp_path / "run")
    assert directory.read_summary()["reason"].startswith(f"by {number.name}")
    transcripts = directory.read_transcripts()
    assert len(transcripts) == 7
    assert all(transcript.complete for transcript in transcripts.values()), "children ended in good order"


def test_a_terminal_that_closes_ends_a_run_with_its_summary(tmp_path: Path) -> None:
    """The kernel sends SIGHUP, and there is nowhere to print to any more."""
    ours, theirs = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    with launched(tmp_path, **streams, preexec_fn=take_terminal) as running:
        os.close(theirs)
        shown = Thread(target=read_to_the_end, args=(ours,))
        shown.start()
        metrics = tmp_path / "run" / "metrics.jsonl"
        running.until(lambda: metrics.exists() and metrics.stat().st_size)
        family = running.family()
        os.close(ours)
        running.process.wait(LIMIT)
        assert running.process.returncode == 3
        assert_nothing_is_left(family, running)
        shown.join(LIMIT)
    summary = RunDirectory.open(tmp_path / "run").read_summary()
    assert summary["reason"].startswith("by SIGHUP")


def take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_to_the_end(terminal: int) -> None:
    with suppress(OSError):
        while os.read(terminal, 65_536):
            continue
