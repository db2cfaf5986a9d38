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
        self._step: object = None
        self._agreed = 0.0
        self.due = now + FIRST_SECONDS
        """When it is to be said next."""

    def begin(self, now: float, step: object, agreed: float = 0.0) -> None:
        """Start to wait anew if the step is another one.

        Args:
            now: as for the class.
            step: compared by identity.
            agreed: seconds that the step lasts by agreement; the first reminder is due as much later.
        """
        if step is not self._step or agreed != self._agreed:
            self._step, self._agreed = step, agreed
            self._since, self._pause = now, FIRST_SECONDS
            self.due = now + agreed + FIRST_SECONDS

    def seconds(self, now: float) -> float:
        """Seconds that it has been waiting."""
        return now - self._since

    def put_off(self, now: float) -> None:
        """It has been said, or there was nothing to say."""
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        self.due = now + self._pause
