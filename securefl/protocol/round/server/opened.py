"""Opened sums of a round."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from securefl.base.ids import PartyId
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.reports import ClusterKey


@dataclass(frozen=True, slots=True, eq=False)
class OpenedRound:
    """Opened sums of a round: the input of its step."""

    drawn: Draw
    survivors: Collection[PartyId]
    sums: tuple[ClusterSum, ...]
    """In the order of (reclustering, cluster)."""
    totals: Mapping[ClusterKey, int] | None = None
    """Members in each sum of a hidden group's updates; None without hidden groups."""
    excluded: frozenset[ClusterKey] = frozenset()
    """Those that failed a check."""
