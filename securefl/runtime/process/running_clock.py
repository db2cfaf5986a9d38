"""Clock that stops while its process does: stopped, swapped out, or on a suspended machine."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

SERVER_TOLERANCE: Final = 2.5
"""Seconds between readings that count as a standstill."""

PARTY_TOLERANCE: Final = 60.0
"""Longer: a party's training may hold the interpreter, and must not affect when its input is sent."""

_GRACE: Final = 3.0
"""Seconds after a standstill in which pending frames are read first."""


class RunningClock:
    """Seconds during which this process ran, by the monotonic clock; never decreases.

    Two readings more than ``tolerance`` seconds apart are a standstill, by which deadlines move. It must be
    read at least every third of ``tolerance`` (:meth:`keep_beating`).
    """

    def __init__(self, tolerance: float, source: Callable[[], float] | None = None) -> None:
        self._tolerance = tolerance
        # Not at import: tests run processes with their own clock.
        self._source = time.monotonic if source is None else source
        self._lock = threading.Lock()
        self._read = self._shown = self._source()
        self._lost = 0.0

    def __call__(self) -> float:
        """Return the time; thread-safe."""
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
        """Seconds of standstills so far, graces included."""
        return self._lost

    async def keep_beating(self) -> None:
        """Read the clock often enough, until cancelled."""
        while True:
            self()
            await asyncio.sleep(self._tolerance / 5)
