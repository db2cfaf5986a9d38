"""Notes of a round: all that its row is made of, as reports add to it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from securefl.base.ids import PartyId

ClusterKey = tuple[int, int]
"""(reclustering, cluster)."""


class SumSeen(NamedTuple):
    """An opened sum: the total of the updates of these parties."""

    reclustering: int
    cluster: int
    members: tuple[PartyId, ...]
    counted: tuple[PartyId, ...]
    inside: int | None = None
    """If groups are hidden: the number of parties of :attr:`counted` whose updates are in the sum."""

    @property
    def size(self) -> int:
        """Parties whose updates it adds up."""
        return len(self.counted) if self.inside is None else self.inside


@dataclass(slots=True)
class RoundNotes:
    """Notes of one round, by the time at which the latest report came."""

    now: float = 0.0
    """Seconds on the clock of the process that reports."""
    tally: Counter[str] = field(default_factory=Counter)
    """Numbers that reports add to the round's row, by column."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time in each step."""
    sums: list[SumSeen] = field(default_factory=list)
    members: Mapping[ClusterKey, tuple[PartyId, ...]] = field(default_factory=dict)
    declared: Mapping[PartyId, int] = field(default_factory=dict)
    """Declared sample counts of all parties that are there."""
    cap: int | None = None
    """U: the declared count that weighs 1; None if all weigh the same."""
    inside: dict[ClusterKey, int] = field(default_factory=dict)
    """Members of each slot that will be opened."""
    withheld: set[PartyId] = field(default_factory=set)
    """Parties that withheld a nonce."""
    excluded: set[PartyId] = field(default_factory=set)
    """Members without which a sum started over."""
    oversized: set[PartyId] = field(default_factory=set)
    """Parties whose updates validation refused."""
    frozen: frozenset[PartyId] = frozenset()
    resting: frozenset[PartyId] = frozenset()
    lost: dict[ClusterKey, str] = field(default_factory=dict)
    failed: dict[ClusterKey, str] = field(default_factory=dict)
    closed: dict[int, str] = field(default_factory=dict)
    """Reasons of the reclusterings that stay closed."""
    norm: float | None = None
    """L2 norm of the aggregated update."""
    skipped: str = ""
    _step: tuple[str, float] | None = None

    def enter(self, step: str) -> None:
        """Book the time since the last step; a step may come again (a void draw starts over)."""
        if self._step is not None:
            name, since = self._step
            self.seconds[name] = self.seconds.get(name, 0.0) + max(0.0, self.now - since)
        self._step = (step, self.now)
