"""How far the sums are from exposing somebody, if random reclusterings went on."""

from __future__ import annotations

from dataclasses import dataclass

from securefl.base.errors import UsageError
from securefl.methods.leakage.ledger import LeakageLedger


@dataclass(frozen=True, slots=True)
class Margin:
    """What is left. Without colluders: each one takes a dimension away."""

    expected: int
    """R* = ceil((N - 1) / (C - 1)): reclusterings at which all parties are exposed, as a rule."""
    dimensions: int
    """Exact: dimension of the changes of the opened updates that no sum shows. 0 means all are exposed."""
    more: int
    """Estimate: further reclusterings until the dimension is 0. Single parties may fall before."""


def margin(ledger: LeakageLedger, clusters: int) -> Margin:
    """The margin of the parties that are in any sum (of all, if no sum was opened).

    Args:
        ledger: the sums.
        clusters: C >= 2 of each further reclustering. It adds C rows, whose sum is known already: all
            reclusterings sum up to the same total.

    Raises:
        UsageError: fewer than two clusters: they never expose anybody but by dropouts.
    """
    if clusters < 2:
        raise UsageError(f"no margin for {clusters} clusters: further ones add nothing")
    opened = len({column for row in ledger.openings for column in row})
    parties = opened or len(ledger.parties)
    dimensions = parties - ledger.echelon.rank
    unknown = dimensions if opened else dimensions - 1
    return Margin(-(-(parties - 1) // (clusters - 1)), dimensions, -(-unknown // (clusters - 1)))
