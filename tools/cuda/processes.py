"""Commands in process groups of their own, with a time limit that holds and no process left behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Final, NamedTuple

GRACE: Final = 5.0
"""Seconds from SIGTERM to SIGKILL."""
STUCK: Final = 10.0
"""Seconds that a killed process may take to end; a driver can hold one for longer."""
_DRAIN: Final = 2.0
"""Seconds for the last output of an ended command."""
_KEPT: Final = 30
"""Last lines of the error output that are kept."""


class Ended(NamedTuple):
    """End of a command."""

    code: int | None
    """Exit code, negative for a signal; None if the process could not be killed."""
    in_time: bool
    """True if the command ended by itself."""
    seconds: float
    errors: tuple[str, ...]
    """Last lines of its error output."""


class _Reader:
    """Splits the bytes of a pipe into lines."""

    def __init__(self, pipe: IO[bytes], on_line: Callable[[str], None]) -> None:
        os.set_blocking(pipe.fileno(), False)
        self.pipe = pipe
        self._on_line = on_line
        self._rest = b""

    def read(self) -> bool:
        """Take what the pipe has; return False at its end."""
        with contextlib.suppress(BlockingIOError):
            content = os.read(self.pipe.fileno(), 1 << 16)
            *lines, self._rest = (self._rest + content).split(b"\n")
            for line in lines:
                self._on_line(line.decode(errors="replace").rstrip("\r"))
            if not content:
                if self._rest:
                    self._on_line(self._rest.decode(errors="replace"))
                return False
        return True


def run_command(
    command: Sequence[str],
    *,
    seconds: float,
    on_line: Callable[[str], None],
    environment: Mapping[str, str],
    folder: Path,
    grace: float = GRACE,
) -> Ended:
    """Run a command for at most ``seconds``.

    Then its group gets SIGTERM and, ``grace`` seconds later, SIGKILL. No process of the group is left when
    this returns or raises, however the command ended.

    Args:
        command: program and arguments.
        seconds: time until SIGTERM.
        on_line: takes each line of the standard output at once.
        environment: of the command, complete.
        folder: its working directory.
        grace: seconds from SIGTERM to SIGKILL.

    It is for the main thread, whose SIGINT and SIGTERM end the command first.

    Raises:
        KeyboardInterrupt: SIGINT or SIGTERM has come.
        OSError: the program cannot be started.
    """
    with _interrupts() as interrupts:
        ended = _run(command, seconds, on_line, environment, folder, grace, interrupts)
        # One that came as the command ended counts as well.
        interrupted = _readable(interrupts)
    if interrupted:
        raise KeyboardInterrupt
    return ended


def _run(
    command: Sequence[str],
    seconds: float,
    on_line: Callable[[str], None],
    environment: Mapping[str, str],
    folder: Path,
    grace: float,
    interrupts: int,
) -> Ended:
    began = time.monotonic()
    errors = deque[str](maxlen=_KEPT)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
    )
    assert process.stdout is not None  # noqa: S101 - for the type checker: both are pipes
    assert process.stderr is not None  # noqa: S101
    with (
        process.stdout,
        process.stderr,
        _exit_pipe(process) as exited,
        selectors.DefaultSelector() as selector,
    ):
        selector.register(exited, selectors.EVENT_READ)
        selector.register(interrupts, selectors.EVENT_READ)
        for reader in (_Reader(process.stdout, on_line), _Reader(process.stderr, errors.append)):
            selector.register(reader.pipe, selectors.EVENT_READ, reader)
        in_time = False
        try:
            in_time = _read_until(selector, {exited, interrupts}, began + seconds) == exited
        finally:
            # A further interrupt changes nothing: the command is being ended.
            selector.unregister(interrupts)
            if not in_time:
                _signal(process, signal.SIGTERM)
                _read_until(selector, {exited}, time.monotonic() + grace)
            # Until it is reaped, the leader's id is the group's: the signal can reach no other group.
            _signal(process, signal.SIGKILL)
            gone = _read_until(selector, {exited}, time.monotonic() + STUCK) == exited
            selector.unregister(exited)
            _drain(selector, time.monotonic() + _DRAIN)
            code = process.wait() if gone else None
    return Ended(code, in_time, time.monotonic() - began, tuple(errors))


@contextlib.contextmanager
def _interrupts() -> Iterator[int]:
    """Yield a descriptor that is readable once SIGINT or SIGTERM has come; meanwhile they raise nothing.

    Otherwise one that comes while a command is started would leave it running.
    """
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)

    def note(_number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(theirs, b"x")

    former = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ours
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        os.close(ours)
        os.close(theirs)


def _readable(descriptor: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


@contextlib.contextmanager
def _exit_pipe(process: subprocess.Popen[bytes]) -> Iterator[int]:
    """Yield a descriptor that is readable from the moment at which the process ends; it is not reaped."""
    ours, theirs = os.pipe()

    def wait() -> None:
        try:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        finally:
            os.close(theirs)

    threading.Thread(target=wait, daemon=True).start()
    try:
        yield ours
    finally:
        os.close(ours)


def _read_until(selector: selectors.BaseSelector, awaited: Collection[int], deadline: float) -> int | None:
    """Pass on lines until one of the awaited descriptors is readable; return it, or None at the deadline."""
    while True:
        ready = selector.select(max(0.0, deadline - time.monotonic()))
        for key, _ in ready:
            if key.fd in awaited:
                return key.fd
        _take(selector, ready)
        if time.monotonic() >= deadline:
            return None


def _drain(selector: selectors.BaseSelector, deadline: float) -> None:
    """Take the last output, until the deadline: a process that has left the group may hold a pipe."""
    while selector.get_map() and time.monotonic() < deadline:
        _take(selector, selector.select(max(0.0, deadline - time.monotonic())))


def _take(selector: selectors.BaseSelector, ready: Sequence[tuple[selectors.SelectorKey, int]]) -> None:
    for key, _ in ready:
        if isinstance(key.data, _Reader) and not key.data.read():
            selector.unregister(key.fileobj)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
