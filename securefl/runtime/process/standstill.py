"""Interpreter standstills by site code, and wait reminders."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

NOTED_SECONDS: Final = 5.0
"""An overloaded machine makes shorter standstills."""
_EVERY: Final = 0.5


class StandstillWatch:
    """Monitor of standstills of the running loop during trainings.

    ``report`` receives the training's round and the seconds. Other standstills have another cause.
    """

    def __init__(self, report: Callable[[int, float], None]) -> None:
        self._report = report
        self._round = -1
        self._ended = -math.inf
        """End of the last training, infinite during one."""

    @contextmanager
    def training(self, round_: int) -> Iterator[None]:
        """Mark the time of a training."""
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
            # The loop step that woke this task may have ended the training.
            if stood >= NOTED_SECONDS and self._ended >= before:
                self._report(self._round, stood)


class LockProbe:
    """Context manager: longest time for which no other thread could run."""

    def __init__(self) -> None:
        self.longest = 0.0
        """In seconds."""
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


FIRST_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 300.0


class Vigil:
    """Schedule of reminders while a process waits: after 10 s, then at growing intervals.

    Times are in seconds on the monotonic clock.
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._pause = FIRST_SECONDS
        self._step: object = None
        self._agreed = 0.0
        self.due = now + FIRST_SECONDS

    def begin(self, now: float, step: object, agreed: float = 0.0) -> None:
        """Restart the wait if ``step`` is another object.

        The first reminder comes ``agreed`` seconds later.
        """
        if step is not self._step or agreed != self._agreed:
            self._step, self._agreed = step, agreed
            self._since, self._pause = now, FIRST_SECONDS
            self.due = now + agreed + FIRST_SECONDS

    def seconds(self, now: float) -> float:
        """Return the seconds waited."""
        return now - self._since

    def put_off(self, now: float) -> None:
        """Schedule the next reminder."""
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        self.due = now + self._pause
