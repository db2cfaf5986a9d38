"""When the server stops waiting: everybody answered, or a deadline that hints may bring forward.

Hints (a broken connection, a missed deadline) only shorten the wait for those whom they concern. They never
decide who takes part: whoever answers in time is counted, hint or not.
"""

from __future__ import annotations

from collections.abc import Collection

from securefl.ids import PartyId

GRACE = 0.5
"""Seconds that the server still waits when only parties with a hint against them are missing."""


def shortened(
    deadline: float,
    now: float,
    missing: Collection[PartyId],
    hinted: Collection[PartyId],
) -> float:
    """Return the deadline of a step, brought forward if nobody but hinted parties is missing."""
    if missing and set(missing) <= set(hinted):
        return min(deadline, now + GRACE)
    return deadline
