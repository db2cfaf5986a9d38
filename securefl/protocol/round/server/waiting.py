"""Waiting at the server: until everybody answered, or a deadline that hints may bring forward (ADR 0032).

Hints (a broken connection, a missed deadline) only shorten the wait for those whom they concern, and only
once enough others have answered for their time to be known. They never decide who takes part: whoever answers
in time is counted, hint or not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from securefl.base.ids import PartyId
from securefl.protocol.round.shared.plan import RunPlan

GRACE = 0.5
"""Seconds that the server still waits after the last answer when only parties with a hint are missing."""
RETURN = 1.5
"""Seconds that a party has to come back after its connection broke: to connect, subscribe, and say so."""
PATIENCE = 2.0
"""No step is shorter than this many times what those who answered it have usually taken."""

_NOBODY: Mapping[PartyId, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of answers in a step of a round."""

    began: float = 0.0
    """When it was asked for; of a kind of step that has no one beginning, when the first was."""
    took: Mapping[PartyId, float] = field(default_factory=lambda: _NOBODY)
    """Seconds, by who has answered."""
    last: float = -math.inf
    """When the last of them did."""

    def answered(self, party: PartyId, now: float, began: float | None = None) -> Pace:
        """The pace with one more answer; of several by one party the slowest counts."""
        seconds = max(now - (self.began if began is None else began), self.took.get(party, 0.0))
        return replace(self, took={**self.took, party: seconds}, last=now)


def least_answers(plan: RunPlan, asked: int) -> int:
    """The answers needed of ``asked`` parties in a step before a hint may shorten it.

    The quorum of certificates, under a curious server a majority; in any case more than collude, so that
    these are never among themselves.
    """
    quorum = plan.limits.quorum
    usual = asked // 2 + 1 if quorum is None else quorum
    return max(usual, plan.scenario.secure_sum.colluders + 1)


def due(
    deadline: float,
    missing: Collection[PartyId],
    late: Collection[PartyId],
    gone: Mapping[PartyId, float],
    pace: Pace,
    least: int,
    began: float | None = None,
) -> float:
    """Return when a step ends: at its deadline, or earlier when nobody but hinted parties is missing.

    How long it takes is told by the ``least``-th answer, and by the median: one of the ``least`` fastest is
    honest, whoever else hurries. No step ends before twice that, nor before who is gone could be back.

    Args:
        deadline: of the step.
        missing: who has not answered.
        late: who has missed a deadline.
        gone: whose connection broke, and when, as the broker says.
        pace: of the step, and of others of its kind.
        least: how many must have answered (:func:`least_answers`).
        began: when the step began, where that is not ``pace.began``.
    """
    if not missing or len(pace.took) < least:
        return deadline
    if not all(party in gone or party in late for party in missing):
        return deadline
    times = sorted(pace.took.values())
    usual = max(times[len(times) // 2], times[least - 1])
    back = max((gone[party] for party in missing if party in gone), default=-math.inf) + RETURN
    start = pace.began if began is None else began
    return min(deadline, max(start + PATIENCE * usual, pace.last + GRACE, back))
