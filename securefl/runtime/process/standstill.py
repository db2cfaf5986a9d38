"""Standstills of a process while a site trains in it: code that holds the interpreter lock."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

NOTED_SECONDS: Final = 5.0
"""Standstills that are reported. An overloaded machine makes shorter ones."""
_EVERY: Final = 0.5


class StandstillWatch:
    """A listener to standstills of the running loop.

    Code that holds the interpreter lock stops all other threads of its process, the loop's included. A
    standstill outside of trainings has another cause and is not reported.

    Args:
        report: called with the round of the training and the seconds of the standstill.
    """

    def __init__(self, report: Callable[[int, float], None]) -> None:
        self._report = report
        self._round = -1
        self._ended = -math.inf
        """When the last training ended, by the loop's clock; infinite during one."""

    @contextmanager
    def training(self, round_: int) -> Iterator[None]:
        """Mark the time of a training; from the loop's thread."""
        self._round, self._ended = round_, math.inf
        try:
            yield
        finally:
            self._ended = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Watch until cancelled."""
        now = asyncio.get_running_loop().time
        while True:
            before = now()
            await asyncio.sleep(_EVERY)
            stood = now() - before - _EVERY
            # The training may have ended in the same step of the loop that this task was woken in.
            if stood >= NOTED_SECONDS and self._ended >= before:
                self._report(self._round, stood)


class LockProbe:
    """The longest time for which no other thread of this process could run, as a context manager."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> LockProbe:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        over = False
        while not over:
            before = time.monotonic()
            over = self._over.wait(_EVERY)
            self.longest = max(self.longest, time.monotonic() - before - _EVERY)
