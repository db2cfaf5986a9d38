"""A clock that stands still while its process does: stopped, swapped out, or on a suspended machine."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

SERVER_TOLERANCE: Final = 2.5
"""Seconds without a beat after which a server counts the time as not run. Its steps and messages are handled
in other threads, so that its loop is never busy for so long."""

PARTY_TOLERANCE: Final = 60.0
"""The same for a party: longer, since training in its process may hold the interpreter, and the time at which
its input leaves must not follow from that."""

_GRACE: Final = 3.0
"""Seconds for which the clock stands still after a standstill: frames that came meanwhile are read first."""


class RunningClock:
    """Seconds during which this process ran, by the monotonic clock; never goes back.

    A machine whose deadlines follow this clock loses no deadline to a standstill: they move by the time that
    was not run. The clock has to be read at least every third of ``tolerance`` (:meth:`keep_beating`).

    Args:
        tolerance: seconds between two readings beyond which the time between them was not run.
        source: the monotonic clock.
    """

    def __init__(self, tolerance: float, source: Callable[[], float] | None = None) -> None:
        self._tolerance = tolerance
        # Looked up now, not at import: tests run processes on a clock of their own.
        self._source = time.monotonic if source is None else source
        self._lock = threading.Lock()
        self._read = self._shown = self._source()
        self._lost = 0.0

    def __call__(self) -> float:
        """Return the time; from any thread."""
        with self._lock:
            now = self._source()
            gap = now - self._read
            self._read = now
            if gap > self._tolerance:
                self._lost += gap + _GRACE
            self._shown = max(self._shown, now - self._lost)
            return self._shown

    @property
    def lost(self) -> float:
        """Seconds that were not run so far, graces included."""
        return self._lost

    async def keep_beating(self) -> None:
        """Read the clock often enough; runs until it is cancelled."""
        while True:
            self()
            await asyncio.sleep(self._tolerance / 5)
