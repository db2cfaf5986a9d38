"""State of a run in a display."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeVar

from securefl.base.ids import PartyId
from securefl.protocol.round.shared.reports.notes import ClusterKey

DONE: Final = "done"

PartyState = Literal["waiting", "counted", "dropped", "rejected", "lost"]
"""No news; survivor; not a survivor; in a cluster that the rule left out; in a lost sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPicture:
    """State of a run. Times are seconds on the server's clock."""

    now: float = 0.0
    began: float | None = None
    """Start of the first round since a resume."""
    since: float = 0.0
    ended: float = 0.0
    done: int = 0
    round: int = 0
    step: str = ""
    present: tuple[PartyId, ...] = ()
    missing: tuple[PartyId, ...] = ()
    clusters: tuple[tuple[PartyId, ...], ...] = ()
    """Clusters of the round's first reclustering."""
    standings: dict[PartyId, PartyState] = field(default_factory=dict)
    inside: int | None = None
    """Parties in the sums that may open, if groups are hidden."""
    opened: int = 0
    """In this round, as ``planned``."""
    planned: int = 0
    total_opened: int = 0
    accuracies: tuple[float, ...] = ()
    backdoor: float | None = None

    def members(self, key: ClusterKey) -> tuple[PartyId, ...]:
        """Return the members of a cluster of the first reclustering; empty for others."""
        reclustering, cluster = key
        known = reclustering == 0 and cluster < len(self.clusters)
        return self.clusters[cluster] if known else ()


AnyPicture = TypeVar("AnyPicture", bound=RunPicture)


def mark_parties(picture: AnyPicture, parties: Iterable[PartyId], state: PartyState) -> AnyPicture:
    """Return the picture with a state for these parties; dropped ones stay dropped."""
    changed = {party: state for party in parties if picture.standings.get(party, "dropped") != "dropped"}
    return replace(picture, standings={**picture.standings, **changed})
