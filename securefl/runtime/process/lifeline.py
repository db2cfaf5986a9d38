"""Processes that end with the launcher, however it ends: by itself, by a signal, or killed without a word.

The first module that the fork server of a run imports (:class:`securefl.runtime.process.children.Children`).
There it asks the kernel (Linux: prctl(2), PR_SET_PDEATHSIG) to end the fork server together with the
launcher, before imports of several seconds begin, and children ask the same about the fork server. Children
also watch the pipe on which they tell the launcher news: it breaks when the launcher is gone, on any system.

A folder for what a run on one machine needs on disk, which goes with the launcher, however that ends.
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
"""Environment variable by which the fork server, and nobody else, learns who has started it."""

_SAFE_PATH = "PYTHONSAFEPATH"

_NOT_FOR_THE_FORK_SERVER = {signal.SIGTERM, signal.SIGHUP}


@contextmanager
def as_launcher() -> Iterator[None]:
    """A fork server that starts meanwhile ends with this process; more exactly, with the calling thread."""
    given = {_LAUNCHER: str(os.getpid())}
    if _SAFE_PATH not in os.environ:
        # It would search the working directory first: a clone there hides an editable installation.
        given[_SAFE_PATH] = _LAUNCHER
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            del os.environ[name]


def die_with(parent: int) -> None:
    """Have the kernel end this process when ``parent`` ends, at once if it is gone already. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(EXIT_ABORTED)


def end_when_broken(pipe: int) -> None:
    """End this process when nobody reads any more what it writes into the pipe (file descriptor)."""

    def watch() -> None:
        poll = select.poll()
        poll.register(pipe, 0)  # POLLERR and POLLHUP are always reported
        while not poll.poll():
            continue
        os._exit(EXIT_ABORTED)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def heed_the_launcher_only() -> None:
    """For a child: what a terminal sends to all at once is the launcher's, which then asks each to end.

    A signal that came earlier than this counts.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    heed_signals()


def heed_signals() -> None:
    """For any process of the fork server: undo what the fork server does not heed itself."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOT_FOR_THE_FORK_SERVER)


def _arm_fork_server(launcher: str) -> None:
    die_with(int(launcher))
    # Sent to a whole group of processes: the launcher ends its children in good order, and then this one.
    # Blocked, not ignored: what is sent to a child before it goes its own way waits until then.
    signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_THE_FORK_SERVER)


if _LAUNCHER in os.environ and os.environ[_LAUNCHER] != str(os.getpid()):
    _arm_fork_server(os.environ.pop(_LAUNCHER))
    if os.environ.get(_SAFE_PATH) == _LAUNCHER:
        # For the fork server alone, not for the processes that sites start.
        del os.environ[_SAFE_PATH]


_REMOVER = Path(__file__).with_name("_remove_with_parent.py")


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder that only this user can read.

    A process of its own waits for the end of this one and removes the folder even if nothing could be
    cleaned up any more: in it are the parties' data.
    """
    with tempfile.TemporaryDirectory(prefix="securefl-", ignore_cleanup_errors=True) as folder:
        # Neither end is inherited by others (PEP 446), so the pipe breaks when this process ends.
        theirs, ours = os.pipe()
        try:
            remover = subprocess.Popen(  # noqa: S603 - our interpreter, a file of ours, a list of arguments
                [sys.executable, "-I", "-S", str(_REMOVER), folder],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Signals to a whole group are for those that still have something to do.
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
