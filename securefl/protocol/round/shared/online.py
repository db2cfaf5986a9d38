"""A clock that stands still while the broker is out of reach: a server's deadlines go by it (ADR 0032)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from securefl.protocol import kernel
from securefl.protocol.round.shared.reports import Effects

OTHERS_RETURN: Final = 6.0
"""Seconds within which everybody notices that a broker is back: who waits tries every 5, at the least.

So long the clock still stands once this process is back, or others would be late by its luck.
"""


@dataclass(frozen=True, slots=True)
class OnlineClock:
    """Time online, in seconds, on a machine's clock less what it was offline."""

    lost: float = 0.0
    """Seconds that do not count."""
    standing_at: float = -math.inf
    """What it shows at least: where it stood when the broker was lost."""
    since: float | None = None
    """When the broker was lost; None while it is there."""
    waited_at: float = -math.inf
    """What it showed when it last stood still for the others to return."""
    owed: float = 0.0
    """For how much longer it would have stood still for them when the broker was lost."""

    def at(self, now: float) -> float:
        """The time that it shows at ``now``, a time of the machine's clock."""
        return self.standing_at if self.since is not None else max(self.standing_at, now - self.lost)

    def stopped(self, now: float) -> OnlineClock:
        """The clock of a server that has just lost the broker."""
        if self.since is not None:
            return self
        owed = max(0.0, self.standing_at + self.lost - now)
        return OnlineClock(self.lost, self.at(now), now, self.waited_at, owed)

    def started(self, now: float) -> OnlineClock:
        """The clock of a server that has it again.

        It waits for the others only once it has run, or the broker was away, as long since it last did: one
        that breaks connections every few seconds must not stop it for good.
        """
        if self.since is None:
            return self
        at = self.standing_at
        if at - self.waited_at + now - self.since < OTHERS_RETURN:
            return OnlineClock(now + self.owed - at, at, None, self.waited_at)
        return OnlineClock(now + OTHERS_RETURN - at, at, None, at)

    def told(self, effects: Effects) -> Effects:
        """The same effects, to be woken by the machine's clock: never while it is offline."""
        return tuple(self._told(one) if isinstance(one, kernel.WakeAt) else one for one in effects)

    def _told(self, asked: kernel.WakeAt) -> kernel.WakeAt:
        if asked.when is None or self.since is not None or math.isinf(asked.when):
            return kernel.WakeAt(None)
        when = asked.when + self.lost
        while self.at(when) < asked.when:
            # Rounding: woken a moment too early, a machine would ask for the same time again, for ever.
            when = math.nextafter(when, math.inf)
        return kernel.WakeAt(when)
