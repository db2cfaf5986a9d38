"""The processes of a run as functions of their settings; each closes its transcript, however the run ends.

Threads of a process: all of them from its beginning.

A loop starts another thread whenever all are busy, up to four more than there are processors. In a thousand
rounds that happens now and then, and each thread keeps a quarter of a megabyte.

The heap of a process that goes on for very many rounds.

CPython looks for garbage among all objects only once those that came since are a quarter of them. Libraries
bring half a million, so that would be after ten thousand rounds, and by then its lists of free objects and
what is in cycles have grown by a kilobyte a round.

glibc gives each thread an arena of its own, and the messages of a round are allocated in one thread and freed
in another. Holes in several arenas then keep many times the size of the model: after 20 rounds of 1.2 million
parameters with verification, a server had 1.9 GB and a party 0.9 GB, with one arena 0.8 GB and 0.5 GB.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any, Final, Protocol, TypeAlias

from securefl.base.errors import SecureflError
from securefl.methods.feasibility import check
from securefl.protocol import kernel
from securefl.protocol.round import RunPlan
from securefl.runtime import process, report
from securefl.runtime.launch.interrupts import block_signals, detach_wakeup
from securefl.runtime.launch.observer import ObserverSettings, watch

_OBJECTS: Final = 700
"""New objects before a collection, at most: Python 3.13 waits for 2,000."""
_YOUNG: Final = 5
_OLD: Final = 1
"""Collections of younger objects before one of older ones, 10 and 10 unless said: now that these are few."""
_ARENA_MAX: Final = -8
"""``M_ARENA_MAX`` of glibc's ``malloc.h``."""


def limit_arenas() -> None:
    """Let all threads of this process allocate from one arena; no effect on systems without glibc.

    Call it before the process starts threads. ``MALLOC_ARENA_MAX`` in the environment takes precedence.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


@contextmanager
def freeze_garbage() -> Iterator[None]:
    """Inside, what is there already is no garbage, and all that comes is looked at often."""
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.freeze()
    gc.set_threshold(min(before[0], _OBJECTS), _YOUNG, _OLD)
    # From here on it counts how many objects there are.
    gc.collect()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()


THREADS: Final = 6
"""One each for a step, a message, training, testing and a broker's address, and one more."""


def ready_threads(count: int = THREADS) -> ThreadPoolExecutor:
    """Return a pool whose threads are there: what it is given waits for one of them, and starts none."""
    pool = ThreadPoolExecutor(count, "securefl")
    meeting = Barrier(count)
    try:
        # Who waits is busy, so that each needs a thread of its own.
        for _ in range(count):
            pool.submit(meeting.wait)
    except BaseException as error:
        # Or they would wait for ever, and the end of the process for them.
        meeting.abort()
        if not isinstance(error, RuntimeError):
            pool.shutdown(wait=False)
            raise
        # The machine has no more: those that are there have to do.
    return pool


Body: TypeAlias = Callable[
    [process.ProcessSettings, process.OpenWitness], Coroutine[Any, Any, kernel.Finished | kernel.Aborted]
]
"""``run_party`` or ``run_server``."""


class Leader(Protocol):
    """Whoever leaves more of a run than a transcript: a deployment's server."""

    def check(self) -> None:
        """Look at the folder, once it is this process's own, before anything else happens.

        Raises:
            ConfigError: something stands in the way.
        """
        ...

    def begin(self, plan: RunPlan) -> None:
        """Begin to write: all is checked, and the broker reached.

        Raises:
            ConfigError, RunAbortedError: it cannot be written.
        """
        ...


def run_process(
    settings: process.ProcessSettings,
    tell: Callable[[report.News], None],
    body: Body,
    leader: Leader | None = None,
) -> kernel.Finished | kernel.Aborted:
    """Run ``body`` to its end and return how it ended.

    Raises:
        ConfigError: refused; nothing was written. Another process of this name holds the folder, for one, or
            it is the server's and holds a run already.
        RunAbortedError: broker or disk failed; the transcript ends with the reason, or with its last whole
            line where the disk is full.
    """
    limit_arenas()
    ring_bits = check(settings.scenario).ring_bits
    with process.claim_folder(settings.out, settings.name):
        if leader is not None:
            leader.check()
        return _run(settings, tell, body, ring_bits, leader)


def _run(
    settings: process.ProcessSettings,
    tell: Callable[[report.News], None],
    body: Body,
    ring_bits: int,
    leader: Leader | None,
) -> kernel.Finished | kernel.Aborted:
    opened: list[report.ProcessWitness] = []
    heap = contextlib.ExitStack()

    def open_witness(plan: RunPlan | None) -> process.Witness:
        if leader is not None and plan is not None:
            leader.begin(plan)
        opened.append(report.ProcessWitness(settings, tell, ring_bits, plan))
        # Models and data are there by now.
        heap.enter_context(freeze_garbage())
        return opened[-1]

    async def to_the_end() -> kernel.Finished | kernel.Aborted:
        asyncio.get_running_loop().set_default_executor(ready_threads())
        outcome = await body(settings, open_witness)
        # Here: behind the loop's end waits a training that nobody needs any more, for as long as it takes.
        for witness in opened:
            witness.close(outcome)
        return outcome

    try:
        with heap, contextlib.ExitStack() as stack:
            with block_signals():
                # Half a loop complains, at the end of the process, that it cannot be closed.
                runner = stack.enter_context(asyncio.Runner())
                stack.callback(detach_wakeup)
            return runner.run(to_the_end())
    except (Exception, KeyboardInterrupt) as error:
        for witness in opened:
            # The disk may be what failed, and the launcher may be gone: the first error is the one to tell.
            with contextlib.suppress(SecureflError, OSError):
                witness.close(kernel.Aborted(_reason(error)))
        raise


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return process.stopped_by(str(error) or "SIGINT")
    return (
        str(error)
        if isinstance(error, SecureflError)
        else f"internal error of securefl, please report it: {error!r}"
    )


def party(
    settings: process.ProcessSettings, tell: Callable[[report.News], None]
) -> kernel.Finished | kernel.Aborted:
    """Run one party to its end."""
    from securefl.runtime.process import run_party  # noqa: PLC0415 - torch: the launcher needs the name only

    return run_process(settings, tell, run_party)


def server(
    settings: process.ProcessSettings, tell: Callable[[report.News], None], leader: Leader | None = None
) -> kernel.Finished | kernel.Aborted:
    """Run the server to its end; ``leader`` leaves more of the run than a transcript."""
    from securefl.runtime.process import run_server  # noqa: PLC0415 - torch: the launcher needs the name only

    return run_process(settings, tell, run_server, leader)


def dealer(
    settings: process.ProcessSettings, tell: Callable[[report.News], None]
) -> kernel.Finished | kernel.Aborted:
    """Run the dealer to its end."""
    return run_process(settings, tell, process.run_dealer)


def observer(settings: process.ProcessSettings, tell: Callable[[report.News], None]) -> None:
    """Observe a local run."""
    watch(ObserverSettings(**process.shared_fields(settings, ObserverSettings)), tell)
