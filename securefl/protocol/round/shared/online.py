"""Clock of online time, for deadlines: it stops while the broker is unreachable (ADR 0032)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from securefl.protocol import kernel
from securefl.protocol.round.shared.reports import Effects

OTHERS_RETURN: Final = 6.0
"""Seconds of standstill after a reconnection, for slower processes: all retry every 5."""


@dataclass(frozen=True, slots=True)
class OnlineClock:
    """Online time in seconds: a machine's clock less its time offline."""

    offline_seconds: float = 0.0
    least_reading: float = -math.inf
    """Least reading: where the clock stood when the broker was lost."""
    offline_since: float | None = None
    """Time when the broker was lost."""
    last_standstill: float = -math.inf
    """Reading at the last standstill for others to return."""
    remaining_standstill: float = 0.0
    """Remaining standstill when the broker was lost."""

    def read(self, now: float) -> float:
        """Return the reading at ``now``, a time of the machine's clock."""
        return (
            self.least_reading
            if self.offline_since is not None
            else max(self.least_reading, now - self.offline_seconds)
        )

    def stop(self, now: float) -> OnlineClock:
        """Return the clock of a server that has just lost the broker."""
        if self.offline_since is not None:
            return self
        owed = max(0.0, self.least_reading + self.offline_seconds - now)
        return OnlineClock(self.offline_seconds, self.read(now), now, self.last_standstill, owed)

    def start(self, now: float) -> OnlineClock:
        """Return the clock of a server that has reconnected.

        It stands still only :data:`OTHERS_RETURN` seconds after it last did: a peer that breaks connections
        often must not stop it for good.
        """
        if self.offline_since is None:
            return self
        at = self.least_reading
        if at - self.last_standstill + now - self.offline_since < OTHERS_RETURN:
            return OnlineClock(now + self.remaining_standstill - at, at, None, self.last_standstill)
        return OnlineClock(now + OTHERS_RETURN - at, at, None, at)

    def convert_alarms(self, effects: Effects) -> Effects:
        """Return the effects with alarms on the machine's clock; none while offline."""
        return tuple(self._convert_alarm(one) if isinstance(one, kernel.WakeAt) else one for one in effects)

    def _convert_alarm(self, asked: kernel.WakeAt) -> kernel.WakeAt:
        if asked.when is None or self.offline_since is not None or math.isinf(asked.when):
            return kernel.WakeAt(None)
        when = asked.when + self.offline_seconds
        while self.read(when) < asked.when:
            # Woken too early by rounding, a machine would request the same time for ever.
            when = math.nextafter(when, math.inf)
        return kernel.WakeAt(when)
