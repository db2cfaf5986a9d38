"""Resumable CrypTen computation of one member.

CrypTen's programs block where they receive; machines never do. So each computation runs in its own thread, in
turns with the machine. A session that is closed or garbage-collected ends its thread.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from securefl.base.errors import PeerError, UsageError
from securefl.protocol.secure_sum.crypten.communicator import Mailbox
from securefl.protocol.secure_sum.crypten.library import Library, load
from securefl.protocol.secure_sum.crypten.progress import Awaiting, Done, Failed, Incoming, Progress
from securefl.protocol.secure_sum.crypten.world import Globals, World

__all__ = ["Awaiting", "Done", "Failed", "Progress", "Session", "reap"]

ResultT = TypeVar("ResultT")

_TURN: Final = threading.Lock()
"""One computation runs: CrypTen's globals belong to the process."""
_ABANDONED: Final[list[_Computation[Any]]] = []
"""Collected without being closed."""


class _ClosedError(BaseException):
    """Unwinds an abandoned computation. CrypTen catches some of ``Exception``."""


class _Computation(Generic[ResultT]):
    """Thread's part. A reference to the session would prevent its collection."""

    def __init__(self, library: Library, world: World, program: Callable[[Library], ResultT]) -> None:
        self.mailbox = Mailbox(world.members, world.rank)
        self.globals = Globals(library, world, self.mailbox, self.wait)
        self._library = library
        self._program = program
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self.closed = False
        self.outcome: tuple[ResultT] | BaseException | None = None
        name = f"crypten-{world.members[world.rank]}"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def switch(self) -> None:
        """Let the computation run until it waits or ends."""
        if self.thread.ident is None:
            self.thread.start()
        self._go.release()
        self._back.acquire()
        if self.outcome is not None:
            self.thread.join()

    def wait(self) -> None:
        """Yield to the machine until the next turn."""
        self._back.release()
        self._go.acquire()
        if self.closed:
            raise _ClosedError

    def close(self) -> None:
        """End the computation at once, with its globals installed for cleanup."""
        self.closed = True
        if self.thread.ident is not None and self.outcome is None:
            with self.globals.in_place():
                self.switch()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self.outcome = (self._program(self._library),)
        except BaseException as error:
            # Reported by the next ``resume``.
            self.outcome = error
        finally:
            self._back.release()


class Session(Generic[ResultT]):
    """Computation of one member."""

    def __init__(self, world: World, program: Callable[[Library], ResultT]) -> None:
        """Prepare ``program``, which all members run, each with its own inputs and CrypTen globals.

        It raises ``PeerError`` if another member sent an impossible value.

        Raises:
            ConfigError: CrypTen is missing.
        """
        self._computation = _Computation(load(), world, program)
        self._members = tuple(world.members)
        self._finished = False
        # Collection may happen during a turn, in any thread: only record it.
        self._finalizer = weakref.finalize(self, _ABANDONED.append, self._computation)

    def __repr__(self) -> str:
        state = "finished" if self._finished else "open"
        return f"Session(member {self._computation.mailbox.rank} of {len(self._members)}, {state})"

    @property
    def finished(self) -> bool:
        """True if it has its result, failed or was closed."""
        return self._finished

    def resume(self, incoming: Iterable[Incoming] = ()) -> Progress[ResultT]:
        """Deliver messages and compute until one is missing.

        Raises:
            PeerError: a message cannot be delivered; nothing has changed.
            UsageError: the session has finished.
            Exception: a bug of the program.
        """
        if self._finished:
            raise UsageError("cannot continue this CrypTen computation: it has finished; start a new session")
        computation = self._computation
        computation.mailbox.deliver(incoming)
        with _turn(), computation.globals.in_place():
            computation.switch()
        outbound = computation.mailbox.drain()
        outcome = computation.outcome
        if outcome is None:
            return Awaiting(outbound)
        self._finished = True
        self._finalizer.detach()
        if isinstance(outcome, PeerError):
            return Failed(outbound, outcome)
        if isinstance(outcome, BaseException):
            raise outcome
        return Done(outbound, outcome[0])

    def close(self) -> None:
        """End the computation and its thread. Closing twice does nothing."""
        self._finished = True
        if self._finalizer.detach():
            with _turn():
                self._computation.close()


def reap() -> None:
    """End the computations of collected sessions, as each turn does."""
    with _turn():
        pass


@contextmanager
def _turn() -> Iterator[None]:
    with _TURN:
        while _ABANDONED:
            _ABANDONED.pop().close()
        yield
