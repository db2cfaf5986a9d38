"""The best that an active server can do to bring one party among its colluders.

It chooses who is announced, voids draws that it dislikes, and loses the inputs of honest members once it
knows the clusters. A sum opens with ``min_survivors`` members: a party is alone as soon as one fewer of its
cluster mates collude and all honest ones can be lost. What holds the server back is the certificate: those
who are left in all clusters together must still be a quorum. Mates as many as the threshold need none of
that: they hold shares enough to open the party's masked vector as soon as it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from securefl.methods.clustering import odds
from securefl.methods.clustering.sizes import (
    MAX_DRAWS,
    cluster_sizes,
    max_cluster_size,
    most_fitting,
    participants_of,
    quorum_of,
)
from securefl.scenario import Scenario

_Least = Callable[[int, int], int]
"""How many mates have to collude, by the size of the cluster and how many parties take part."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The server's best gain."""

    chance: float
    """In one draw."""
    present: int
    """With so many parties announced; 0 where it gains nothing."""

    def in_run(self, openings: int) -> float:
        """P(at least once in all draws that it can have for so many openings)."""
        return odds.once_in(self.chance, openings * MAX_DRAWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveServer:
    """The numbers that it plays with. Clusters are drawn anew in every round, without atoms."""

    parties: int
    """N: of the run."""
    participants: int
    """Who takes part in a round, if all are there."""
    colluders: int
    """q: with the server, over the whole run."""
    size: int
    """m: fewest members of a cluster."""
    largest: int
    """The most members that a cluster may have, whoever stays away."""
    quorum: int
    """Survivors that certify a round."""

    def isolates(self, min_survivors: int, threshold: int | None = None) -> Worst:
        """The server's way to leave a given party alone among colluders in an opened sum.

        The expected draw is over the party's place, too: none where it is not drawn, else a cluster of each
        size in proportion to the members of such clusters. Its mates are a uniform choice of the others.

        Args:
            min_survivors: of the scenario.
            threshold: the same; None where shares of single members open nothing.
        """
        return self._best(self._enough(min_survivors, threshold))

    def isolates_at_once(self, min_survivors: int, threshold: int | None = None) -> float:
        """The same in one draw among everybody, as that of fixed clusters is."""
        return self._chance(self.parties, self.parties, self._enough(min_survivors, threshold))

    def _enough(self, min_survivors: int, threshold: int | None) -> _Least:
        def least(size: int, drawn: int) -> int:
            left = max(min_survivors, size - (drawn - self.quorum)) - 1
            return left if threshold is None else min(left, threshold)

        return least

    def exceeds(self, f: int) -> Worst:
        """The server's way to bring a given party together with more than ``f`` colluding mates."""
        return self._best(lambda _size, _drawn: f + 1)

    def _best(self, least: _Least) -> Worst:
        best = Worst(0.0, 0)
        if not self.colluders:
            return best
        for present in range(max(self.quorum, self.size), self.parties + 1):
            drawn = self._drawn(present)
            if not drawn:
                continue
            chance = self._chance(present, drawn, least)
            if chance > best.chance:
                best = Worst(chance, present)
            elif self._bound(present, drawn, least) <= best.chance:
                break
        return best

    def _chance(self, present: int, drawn: int, least: _Least) -> float:
        sizes = cluster_sizes(drawn, self.size)
        return sum(
            sizes.count(size) * size / present * self._met(present, size, least(size, drawn))
            for size in set(sizes)
        )

    def _bound(self, present: int, drawn: int, least: _Least) -> float:
        """At least the chance with this many parties or more: the more are there, the fewer of them collude.

        From m^2 participants on clusters have m or m + 1 members.
        """
        most = min(self.size + 1, self.largest) if drawn >= self.size**2 else self.largest
        return self._met(present, most, least(most, self.quorum + most))

    def _met(self, present: int, size: int, least: int) -> float:
        return odds.tail(present - 1, self.colluders, min(size, present) - 1, least)

    def _drawn(self, present: int) -> int:
        fewest = max(self.quorum, self.size)
        return most_fitting(min(self.participants, present), fewest, self.size, self.largest)


def server_of(scenario: Scenario) -> ActiveServer:
    """The numbers of a feasible scenario."""
    parties, colluders = scenario.parties, scenario.secure_sum.colluders
    return ActiveServer(
        parties=parties,
        participants=participants_of(scenario),
        colluders=colluders,
        size=scenario.clustering.size,
        largest=max_cluster_size(scenario),
        quorum=quorum_of(parties, colluders),
    )
