"""Waiting at the server: until all answers, a deadline, or an earlier end by hints (ADR 0032).

Hints (a broken connection, a missed deadline, a restart in the round) shorten the wait for these parties,
once enough answers show the usual time. They never exclude a party that answers in time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from securefl.base.ids import PartyId
from securefl.protocol.round.shared.plan import RunPlan

GRACE_SECONDS = 0.5
"""Wait after the last answer if only parties with hints are missing."""
RECONNECT_SECONDS = 1.5
"""Time to connect, subscribe and report after a broken connection."""
PACE_FACTOR = 2.0
"""Least length of a step, in multiples of the usual time."""

_NOBODY: Mapping[PartyId, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of answers in a step of a round."""

    began: float = 0.0
    """For kinds of step with several starts, the first."""
    seconds_by_party: Mapping[PartyId, float] = field(default_factory=lambda: _NOBODY)
    """In seconds."""
    last_answer: float = -math.inf

    def with_answer(self, party: PartyId, now: float, began: float | None = None) -> Pace:
        """Return the pace with one more answer; a party's slowest counts."""
        seconds = max(now - (self.began if began is None else began), self.seconds_by_party.get(party, 0.0))
        return replace(self, seconds_by_party={**self.seconds_by_party, party: seconds}, last_answer=now)


def least_answers(plan: RunPlan, asked: int) -> int:
    """Return the answers needed of ``asked`` parties before a hint may shorten a step.

    A certificate's quorum, or a majority under a curious server; always more than q, so one is honest.
    """
    quorum = plan.limits.quorum
    usual = asked // 2 + 1 if quorum is None else quorum
    return max(usual, plan.scenario.secure_sum.colluders + 1)


def step_end(
    deadline: float,
    missing: Collection[PartyId],
    late: Collection[PartyId],
    gone: Mapping[PartyId, float],
    pace: Pace,
    least: int,
    began: float | None = None,
) -> float:
    """Return when a step ends: at its deadline, or earlier if only parties with hints are missing.

    The usual time is the larger of the ``least``-th answer and the median: one of the ``least`` fastest is
    honest. No step ends before twice that time, nor before parties that are ``gone`` (since a time) could
    return. ``late`` parties missed a deadline, or were restarted in this round.
    """
    if not missing or len(pace.seconds_by_party) < least:
        return deadline
    if not all(party in gone or party in late for party in missing):
        return deadline
    times = sorted(pace.seconds_by_party.values())
    usual = max(times[len(times) // 2], times[least - 1])
    back = max((gone[party] for party in missing if party in gone), default=-math.inf) + RECONNECT_SECONDS
    start = pace.began if began is None else began
    return min(deadline, max(start + PACE_FACTOR * usual, pace.last_answer + GRACE_SECONDS, back))
