"""Missing rounds: they took a party's input, but are not in the server's chain of models.

An honest server ends a run after three void rounds in a row; a dishonest one could take updates without
limit. So each party counts them, over all runs of one server key, and leaves. Refunded rounds do not count.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from securefl.base import sums

IN_A_ROW: Final = 3
"""Missing rounds in a row after which a party leaves."""
WITHIN: Final = 10
"""The same among the last :data:`WINDOW`."""
WINDOW: Final = 30


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """Outcome of a round that took the input, or for which the update waited."""

    run: str
    round: int
    missing: bool
    """True if the chain continues without it."""


Outcomes = tuple[RoundOutcome, ...]


def with_outcomes(before: Outcomes, more: Sequence[RoundOutcome]) -> Outcomes:
    """Return the outcomes that still count, oldest first."""
    return (*before, *more)[-WINDOW:]


def without_rounds(outcomes: Outcomes, rounds: Collection[tuple[str, int]]) -> Outcomes:
    """Return the outcomes without refunded rounds."""
    return tuple(one for one in outcomes if (one.run, one.round) not in rounds)


def reason_to_leave(outcomes: Outcomes) -> str:
    """Return why a party leaves a server with these outcomes; empty if it stays."""
    latest = outcomes[-IN_A_ROW:]
    if len(latest) == IN_A_ROW and all(one.missing for one in latest):
        return f"{IN_A_ROW} rounds in a row took its updates and are missing from the server's chain"
    missing = sums.exact_sum(one.missing for one in outcomes[-WINDOW:])
    if missing >= WITHIN:
        return f"{missing} of {WINDOW} rounds took its updates and are missing from the server's chain"
    return ""
