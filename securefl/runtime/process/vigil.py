"""Reminders of whom a process waits for: after ten seconds, and then ever more rarely."""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 300.0


class Vigil:
    """Since when a process waits, and when it says so next.

    Args:
        now: time on the monotonic clock, in seconds, as everywhere here.
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._pause = FIRST_SECONDS
        self._step: type | None = None
        self.due = now + FIRST_SECONDS
        """When it is to be said next."""

    def begin(self, now: float, step: type) -> None:
        """Something has moved. Waiting begins anew with each step, which is a kind of phase."""
        if step is not self._step:
            self._step = step
            self._since, self._pause = now, FIRST_SECONDS
            self.due = now + FIRST_SECONDS

    def seconds(self, now: float) -> float:
        """Seconds that it has been waiting."""
        return now - self._since

    def put_off(self, now: float) -> None:
        """It has been said, or there was nothing to say."""
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        self.due = now + self._pause
