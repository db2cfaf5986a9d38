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

    lost: float = 0.0
    standing_at: float = -math.inf
    """Least reading: where the clock stood when the broker was lost."""
    since: float | None = None
    """Time when the broker was lost."""
    waited_at: float = -math.inf
    """Reading at the last standstill for others to return."""
    owed: float = 0.0
    """Remaining standstill when the broker was lost."""

    def read(self, now: float) -> float:
        """Return the reading at ``now``, a time of the machine's clock."""
        return self.standing_at if self.since is not None else max(self.standing_at, now - self.lost)

    def stop(self, now: float) -> OnlineClock:
        """Return the clock of a server that has just lost the broker."""
        if self.since is not None:
            return self
        owed = max(0.0, self.standing_at + self.lost - now)
        return OnlineClock(self.lost, self.read(now), now, self.waited_at, owed)

    def start(self, now: float) -> OnlineClock:
        """Return the clock of a server that has reconnected.

        It stands still only :data:`OTHERS_RETURN` seconds after it last did: a peer that breaks connections
        often must not stop it for good.
        """
        if self.since is None:
            return self
        at = self.standing_at
        if at - self.waited_at + now - self.since < OTHERS_RETURN:
            return OnlineClock(now + self.owed - at, at, None, self.waited_at)
        return OnlineClock(now + OTHERS_RETURN - at, at, None, at)

    def convert_alarms(self, effects: Effects) -> Effects:
        """Return the effects with alarms on the machine's clock; none while offline."""
        return tuple(self._convert_alarm(one) if isinstance(one, kernel.WakeAt) else one for one in effects)

    def _convert_alarm(self, asked: kernel.WakeAt) -> kernel.WakeAt:
        if asked.when is None or self.since is not None or math.isinf(asked.when):
            return kernel.WakeAt(None)
        when = asked.when + self.lost
        while self.read(when) < asked.when:
            # Woken too early by rounding, a machine would request the same time for ever.
            when = math.nextafter(when, math.inf)
        return kernel.WakeAt(when)
