"""Threads of a process: all of them from its beginning.

A loop starts another thread whenever all are busy, up to four more than there are processors. In a thousand
rounds that happens now and then, and each thread keeps a quarter of a megabyte.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

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
