"""Notes of a round: facts from reports for its row."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from securefl.base.ids import PartyId

ClusterKey = tuple[int, int]
"""(reclustering, cluster)."""


class SumSeen(NamedTuple):
    """An opened sum of these parties' updates."""

    reclustering: int
    cluster: int
    members: tuple[PartyId, ...]
    counted: tuple[PartyId, ...]
    inside: int | None = None
    """With hidden groups: number of updates in the sum, from :attr:`counted` parties."""

    @property
    def size(self) -> int:
        """Number of updates in the sum."""
        return len(self.counted) if self.inside is None else self.inside


@dataclass(slots=True)
class RoundNotes:
    """Notes of one round, at the time of the latest report."""

    now: float = 0.0
    tally: Counter[str] = field(default_factory=Counter)
    """Additions to the round's row, by column."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By step."""
    sums: list[SumSeen] = field(default_factory=list)
    members: Mapping[ClusterKey, tuple[PartyId, ...]] = field(default_factory=dict)
    declared: Mapping[PartyId, int] = field(default_factory=dict)
    """Sample counts of all parties present."""
    cap: int | None = None
    inside: dict[ClusterKey, int] = field(default_factory=dict)
    """Members of each slot to be opened."""
    withheld: set[PartyId] = field(default_factory=set)
    excluded: set[PartyId] = field(default_factory=set)
    """By a retry of a sum."""
    oversized: set[PartyId] = field(default_factory=set)
    """Rejected by validation."""
    frozen: frozenset[PartyId] = frozenset()
    resting: frozenset[PartyId] = frozenset()
    lost: dict[ClusterKey, str] = field(default_factory=dict)
    failed: dict[ClusterKey, str] = field(default_factory=dict)
    closed: dict[int, str] = field(default_factory=dict)
    """Reasons of reclusterings that stay closed."""
    norm: float | None = None
    """Norm of the aggregated update."""
    skipped: str = ""
    joined: dict[PartyId, int | None] = field(default_factory=dict)
    """Parties that joined late, with the first round of their absence; None from the server's start."""
    _step: tuple[str, float] | None = None

    def enter_step(self, step: str) -> None:
        """Add the time since the last step; a step may repeat after a void draw."""
        if self._step is not None:
            name, since = self._step
            self.seconds[name] = self.seconds.get(name, 0.0) + max(0.0, self.now - since)
        self._step = (step, self.now)
