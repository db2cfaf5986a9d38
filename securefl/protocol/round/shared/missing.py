"""Rounds that took a party's input and are missing from the chain of models that its server leads.

The code of an honest server ends a run after three void rounds in a row. Another one takes an update in each
of them, and draws clusters as often as it likes. So each party counts by itself, over restarts, epochs and
run ids of one server's key, and leaves. Rounds that statements have refunded do not count.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from securefl.base import sums

IN_A_ROW: Final = 3
"""Missing rounds in a row after which a party leaves."""
WITHIN: Final = 10
"""Missing rounds among the last :data:`WINDOW` after which it leaves."""
WINDOW: Final = 30


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """A round that took the party's input, or for which its update waited, once its link is known."""

    run: str
    round: int
    missing: bool
    """True if the chain goes on without it."""


Outcomes = tuple[RoundOutcome, ...]


def with_outcomes(before: Outcomes, more: Sequence[RoundOutcome]) -> Outcomes:
    """Return the outcomes that still count, oldest first."""
    return (*before, *more)[-WINDOW:]


def without_rounds(outcomes: Outcomes, rounds: Collection[tuple[str, int]]) -> Outcomes:
    """Return the outcomes of all other rounds: these were refunded."""
    return tuple(one for one in outcomes if (one.run, one.round) not in rounds)


def reason_to_leave(outcomes: Outcomes) -> str:
    """Return why a party leaves a server whose rounds ended so; empty if it stays."""
    latest = outcomes[-IN_A_ROW:]
    if len(latest) == IN_A_ROW and all(one.missing for one in latest):
        return f"{IN_A_ROW} rounds in a row took its updates and are missing from the server's chain"
    missing = sums.exact_sum(one.missing for one in outcomes[-WINDOW:])
    if missing >= WITHIN:
        return f"{missing} of {WINDOW} rounds took its updates and are missing from the server's chain"
    return ""
