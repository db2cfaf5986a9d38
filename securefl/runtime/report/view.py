"""What the server could see: which totals it opened, and which single updates follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from securefl.base.entropy import OsEntropy
from securefl.base.ids import PartyId
from securefl.methods.leakage import LeakageLedger, UpdateVersion, prime_from
from securefl.runtime.report.records import CLOSED, RoundRecord

_MAX_PARTIES: Final = 2000
"""Beyond it, combinations of overlapping sums are not searched."""


@dataclass(frozen=True, slots=True)
class ServerView:
    """The sums of a run, as the server sees them, without help by colluding parties."""

    opened: int
    by_size: Mapping[int, int]
    """How many opened sums have so many parties' updates in them, smallest first."""
    exposed: tuple[tuple[int, str], ...]
    """(round, party): updates that are a sum of their own, or follow from the sums of their round."""
    searched: bool
    """Whether all linear combinations of the sums of one round were searched."""
    closed: int = 0
    """Sums that stayed closed, as together with others they would have crossed somebody's limit."""

    @property
    def smallest(self) -> int | None:
        """Parties in the smallest opened sum; None when none was opened."""
        return min(self.by_size, default=None)


def server_view(records: Sequence[RoundRecord], *, new_work: bool = False) -> ServerView:
    """What the opened sums of these rounds give away.

    Args:
        records: of the rounds.
        new_work: whether each reclustering sums other updates: what several sums tell about what these have
            in common is not searched.
    """
    sizes = Counter(seen.size for record in records for seen in record.sums)
    exposed: list[tuple[int, str]] = []
    searched = True
    for record in records:
        alone = None if new_work else determined([seen.counted for seen in record.sums])
        searched = searched and alone is not None
        if alone is None:
            alone = {party for seen in record.sums if len(seen.counted) == 1 for party in seen.counted}
        exposed += [(record.round, party) for party in sorted(alone)]
    closed = sum(reason.startswith(CLOSED) for record in records for reason in record.lost.values())
    return ServerView(sizes.total(), dict(sorted(sizes.items())), tuple(exposed), searched, closed)


def determined(sums: Sequence[Collection[str]]) -> set[str] | None:
    """The parties whose value is a linear combination of these sums; None when there are too many to search.

    Exact, by the ledger modulo a random prime: wrong with a probability below 10^-9.
    """
    distinct = sorted({tuple(sorted(members)) for members in sums if members})
    parties = sorted({party for members in distinct for party in members})
    if sum(map(len, distinct)) == len(parties):
        return {members[0] for members in distinct if len(members) == 1}
    if len(parties) > _MAX_PARTIES:
        return None
    prime = prime_from(OsEntropy().draw(32))
    ledger = LeakageLedger.begin(UpdateVersion(0), map(PartyId, parties), prime)
    for members in distinct:
        ledger = ledger.open([PartyId(party) for party in members])
    return set(ledger.exposed)
