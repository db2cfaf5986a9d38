"""One member's CrypTen computation as something that can be stopped and resumed.

CrypTen's programs block where they receive; our machines never do. So each computation runs in a thread of
its own, and the two hand a baton back and forth: either the machine runs, or the computation does, never
both, and never two computations at once (CrypTen's globals are the process's). The machine sees one call:
``resume(incoming)`` gives the messages that are to go out, and says whether the computation waits, has its
result, or failed because of a peer.

A session that is closed, or that nobody refers to any more, ends its thread where it waits.
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
"""Held by the computation that runs: CrypTen's globals are the process's."""
_ABANDONED: Final[list[_Computation[Any]]] = []
"""Computations whose sessions were collected without being closed."""


class _ClosedError(BaseException):
    """Unwinds a computation that nobody waits for; no ``Exception``, since CrypTen catches some of those."""


class _Computation(Generic[ResultT]):
    """The thread's half: it must not refer to the session, or the session would never be collected."""

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
        """Machine: let the computation run until it waits or ends."""
        if self.thread.ident is None:
            self.thread.start()
        self._go.release()
        self._back.acquire()
        if self.outcome is not None:
            self.thread.join()

    def wait(self) -> None:
        """Computation: give the baton back and wait for it."""
        self._back.release()
        self._go.acquire()
        if self.closed:
            raise _ClosedError

    def close(self) -> None:
        """Machine: end the computation where it stands. What it undoes on its way out are its own globals."""
        self.closed = True
        if self.thread.ident is not None and self.outcome is None:
            with self.globals.in_place():
                self.switch()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self.outcome = (self._program(self._library),)
        except BaseException as error:
            # Not lost: whoever resumed the computation gets it.
            self.outcome = error
        finally:
            self._back.release()


class Session(Generic[ResultT]):
    """A computation of one member: start it by the first :meth:`resume`."""

    def __init__(self, world: World, program: Callable[[Library], ResultT]) -> None:
        """Prepare ``program``, which runs with this member's CrypTen and returns the result.

        Args:
            world: who computes.
            program: what all members run, each with its own inputs. It may call whatever CrypTen has; it
                raises ``PeerError`` where another member sent what cannot be.

        Raises:
            ConfigError: CrypTen is missing.
        """
        self._computation = _Computation(load(), world, program)
        self._members = tuple(world.members)
        self._finished = False
        # Collection may happen in the middle of a turn, in any thread: it only leaves word.
        self._finalizer = weakref.finalize(self, _ABANDONED.append, self._computation)

    def __repr__(self) -> str:
        state = "finished" if self._finished else "open"
        return f"Session(member {self._computation.mailbox.rank} of {len(self._members)}, {state})"

    @property
    def finished(self) -> bool:
        """Whether it has its result, failed or was closed."""
        return self._finished

    def resume(self, incoming: Iterable[Incoming] = ()) -> Progress[ResultT]:
        """Deliver messages and compute until one is missing.

        Raises:
            PeerError: a message that cannot be delivered; nothing has changed.
            UsageError: the session has finished.
            Exception: what the program raised, other than ``PeerError``: a bug.
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
        """End the computation; its thread is gone when this returns. Closing twice does nothing."""
        self._finished = True
        if self._finalizer.detach():
            with _turn():
                self._computation.close()


def reap() -> None:
    """End the computations of sessions that nobody refers to; each further turn does so, too."""
    with _turn():
        pass


@contextmanager
def _turn() -> Iterator[None]:
    with _TURN:
        while _ABANDONED:
            _ABANDONED.pop().close()
        yield
