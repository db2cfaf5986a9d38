"""Lifeline: processes and files that end with the launcher, even if it is killed (ADR 0036).

The fork server imports this module first: the kernel (Linux: prctl(2), PR_SET_PDEATHSIG) ends it with the
launcher. Children do the same with the fork server, and watch their pipe to the launcher, which breaks on any
system.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from securefl.base.errors import EXIT_ABORTED

_PR_SET_PDEATHSIG = 1
_LAUNCHER = "SECUREFL_LAUNCHER"
"""Variable with the launcher's process id, for the fork server."""

_SAFE_PATH = "PYTHONSAFEPATH"

_NOT_FOR_THE_FORK_SERVER = {signal.SIGTERM, signal.SIGHUP}


@contextmanager
def as_launcher() -> Iterator[None]:
    """Tie a fork server that starts in the context to the calling thread."""
    given = {_LAUNCHER: str(os.getpid())}
    if _SAFE_PATH not in os.environ:
        # A clone in the working directory would hide an editable installation.
        given[_SAFE_PATH] = _LAUNCHER
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            del os.environ[name]


def die_with(parent: int) -> None:
    """Have the kernel end this process with ``parent``, at once if it is already gone. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(EXIT_ABORTED)


def end_when_broken(pipe: int) -> None:
    """End this process when the reader of the pipe (file descriptor) is gone."""

    def watch() -> None:
        poll = select.poll()
        poll.register(pipe, 0)  # POLLERR and POLLHUP are always reported
        while not poll.poll():
            continue
        os._exit(EXIT_ABORTED)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def heed_the_launcher_only() -> None:
    """Let a child ignore terminal signals, which the launcher handles for all.

    An earlier blocked signal is delivered.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    heed_signals()


def heed_signals() -> None:
    """Unblock the signals that the fork server blocks."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOT_FOR_THE_FORK_SERVER)


def _arm_fork_server(launcher: str) -> None:
    die_with(int(launcher))
    # On a signal to the group the launcher ends its children in good order, then the fork server. Blocked,
    # not ignored, signals wait until a child unblocks them.
    signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_THE_FORK_SERVER)


if _LAUNCHER in os.environ and os.environ[_LAUNCHER] != str(os.getpid()):
    _arm_fork_server(os.environ.pop(_LAUNCHER))
    if os.environ.get(_SAFE_PATH) == _LAUNCHER:
        # Not for processes of sites.
        del os.environ[_SAFE_PATH]


_REMOVER = Path(__file__).with_name("_remove_with_parent.py")


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a private temporary folder for the parties' data.

    A separate process removes it if this process is killed.
    """
    with tempfile.TemporaryDirectory(prefix="securefl-", ignore_cleanup_errors=True) as folder:
        # Neither end is inherited (PEP 446): the pipe breaks when this process ends.
        theirs, ours = os.pipe()
        try:
            remover = subprocess.Popen(  # noqa: S603 - our interpreter, a file of ours, a list of arguments
                [sys.executable, "-I", "-S", str(_REMOVER), folder],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Keep signals to a process group away from it.
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        try:
            yield Path(folder)
        finally:
            os.close(ours)
            remover.wait()
