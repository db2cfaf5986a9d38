"""Adaptive server: the best strategy to place one party among its colluders, and its probability (ADR 0034).

A curious server is passive: the draw of clusters decides. An active server chooses the announced parties and
voids draws at no cost. Once it knows the clusters, it drops honest inputs, as long as survivors of all
clusters are a quorum. A party is alone if ``min_survivors`` - 1 of its cluster mates collude and all honest
ones can be dropped. As many colluding mates as the threshold need no dropouts: their shares open its masked
vector.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from securefl.methods.clustering import odds
from securefl.methods.clustering.sizes import (
    MAX_DRAWS,
    atom_sizes,
    cluster_sizes,
    max_cluster_size,
    most_fitting,
    participants_of,
    planned_sizes,
    quorum_of,
    rests_on_chance,
    tells_groups,
)
from securefl.scenario import Scenario

_Least = Callable[[int, int], int]
"""Number of mates that have to collude, by size of the cluster and number of participants."""


@dataclass(frozen=True, slots=True)
class Best:
    """The server's best strategy."""

    chance: float
    """In one draw of one reclustering."""
    present: int
    """Number of announced parties; 0 if the server gains nothing."""
    in_run: float
    """Probability of a success in some draw, treated as independent. The reclusterings of a draw share its
    participants, so this is a bound if R > 1 and participants are drawn, else exact."""


_NOTHING = Best(0.0, 0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """Parameters of the game. Clusters are drawn anew in every round, without atoms."""

    parties: int
    """N: parties of the run."""
    participants: int
    """Participants of a round, if all parties are present."""
    colluders: int
    """q: colluders with the server over the whole run."""
    size: int
    """m: smallest number of members of a cluster."""
    largest: int
    """Largest number of members of a cluster, for any absences."""
    server: Literal["curious", "active"] = "active"
    openings: int = 1
    """T x R: clusterings of the run."""
    fixed: bool = False
    """True if all parties are drawn once for the whole run."""

    @property
    def quorum(self) -> int:
        """Number of survivors that certify a round."""
        return quorum_of(self.parties, self.colluders)

    @property
    def draws(self) -> int:
        """Clusterings that the server can draw in the run; it keeps at most one of :data:`MAX_DRAWS`."""
        if self.fixed:
            return 1
        return self.openings * (MAX_DRAWS if self.server == "active" else 1)

    def alone(self, min_survivors: int, threshold: int | None = None) -> Best:
        """Return the best strategy to leave a given party alone among colluders in an opened sum.

        The probability covers the party's place: not drawn, or in a cluster of each size. A dropped input is
        dropped in all reclusterings. So this is a bound if R > 1 and the server drops two members of a
        cluster. A ``threshold`` of None means that shares of single members open nothing.
        """

        def least(size: int, drawn: int) -> int:
            left = size - 1
            if self.server == "active":
                left = max(min_survivors, size - (drawn - self.quorum)) - 1
            return left if threshold is None else min(left, threshold)

        announced = self._announced if self.server == "active" else range(self.parties, self.parties + 1)
        return self._best(least, announced)

    def exceeds(self, f: int, fewest: int | None = None) -> Best:
        """Return the best strategy to place a given party with more than ``f`` colluding mates.

        It holds for any absences down to ``fewest`` parties in every round; default: the number that
        certifies a round.
        """
        return self._best(
            lambda _size, _drawn: f + 1,
            self._announced if fewest is None else range(fewest, self.parties + 1),
        )

    @property
    def _announced(self) -> range:
        return range(max(self.quorum, self.size), self.parties + 1)

    def _best(self, least: _Least, announced: Iterable[int]) -> Best:
        if not self.colluders:
            return _NOTHING
        best, with_ = 0.0, 0
        for present in (self.parties,) if self.fixed else announced:
            drawn = self.drawn(present)
            if not drawn:
                continue
            chance = self._chance(present, drawn, least)
            if chance > best:
                best, with_ = chance, present
            elif self._bound(present, drawn, least) <= best:
                break
        return Best(best, with_, odds.once_in(best, self.draws))

    def _chance(self, present: int, drawn: int, least: _Least) -> float:
        sizes = cluster_sizes(drawn, self.size)
        return math.fsum(
            sizes.count(size) * size / present * self._meeting_probability(present, size, least(size, drawn))
            for size in set(sizes)
        )

    def _bound(self, present: int, drawn: int, least: _Least) -> float:
        """Return an upper bound on the probability with ``present`` or more parties.

        From m^2 participants on, clusters have m or m + 1 members. The bound decreases with the number of
        parties.
        """
        most = min(self.size + 1, self.largest) if drawn >= self.size**2 else self.largest
        return self._meeting_probability(present, most, least(most, self.quorum + most))

    def _meeting_probability(self, present: int, size: int, least: int) -> float:
        return odds.tail(present - 1, self.colluders, min(size, present) - 1, least)

    def drawn(self, present: int) -> int:
        """Return the number of participants among ``present`` announced; 0 without a round."""
        if self.fixed:
            return present
        fewest = max(self.quorum, self.size) if self.server == "active" else self.size
        return most_fitting(min(self.participants, present), fewest, self.size, self.largest)


def game_of(scenario: Scenario) -> Game:
    """Return the parameters of a feasible scenario."""
    return Game(
        parties=scenario.parties,
        participants=participants_of(scenario),
        colluders=scenario.secure_sum.colluders,
        size=scenario.clustering.size,
        largest=max_cluster_size(scenario),
        server=scenario.secure_sum.server,
        openings=scenario.stop.rounds * scenario.clustering.reclusterings,
        fixed=scenario.clustering.fixed,
    )


def p_alone(scenario: Scenario) -> tuple[float, float]:
    """Return P(a given party is left alone among colluders) in one opening and in the run, if feasible.

    With open task groups colluders name the party's group, so chance does not help. With atoms, sums
    determine the party's atom, or its mates hold enough shares: the sum of both is a bound.
    """
    sums = scenario.secure_sum
    if tells_groups(scenario.groups) and sums.colluders:
        filled = float(sums.colluders >= min(sums.threshold, sums.min_survivors - 1))
        return filled, filled
    # As many mates as the threshold rebuild a party's masks; CrypTen's members hold no such shares.
    threshold = sums.threshold if sums.kind == "masking" else None
    if scenario.clustering.atoms > 1:
        return _alone_in_atoms(scenario, threshold)
    best = game_of(scenario).alone(sums.min_survivors, threshold)
    return best.chance, best.in_run


def _alone_in_atoms(scenario: Scenario, threshold: int | None) -> tuple[float, float]:
    """Return the same for the largest cluster of whole atoms among the fewest parties that may be announced.

    All colluders are assumed to be in a quorum. That covers a server that knows kept atoms and announces
    favourable ones, as long as the threshold is above the number of atoms in a cluster.
    """
    game, exposed = game_of(scenario), _exposure_probability(scenario)
    if game.server == "active":
        present, size = game.quorum, min(game.largest, game.quorum)
    else:
        present, size = game.parties, max(planned_sizes(scenario))
    least = size - 1 if threshold is None else min(threshold, size - 1)
    opened = odds.tail(present - 1, game.colluders, size - 1, least)
    in_run = 0.0 if threshold is None else odds.once_in(opened, game.draws)
    return max(opened, exposed) if game.server == "active" else opened, min(1.0, exposed + in_run)


def _exposure_probability(scenario: Scenario) -> float:
    """Return P(all mates of a given party in the smallest atom collude), at any atom draw of the run."""
    parties, colluders = scenario.parties, scenario.secure_sum.colluders
    alone = odds.alone_among(parties, colluders, min(atom_sizes(parties, scenario.clustering.atoms)))
    return odds.once_in(alone, atom_draws(scenario))


def atom_draws(scenario: Scenario) -> int:
    """Return how often atoms can be drawn before any party keeps them: a server may void draws."""
    return MAX_DRAWS * scenario.stop.rounds if scenario.secure_sum.server == "active" else 1


def p_shares_fail(scenario: Scenario, fewest: int | None = None) -> float:
    """Return P(more than f of a given party's cluster mates collude in an opening of the run).

    For the worst numbers of present parties, at least ``fewest`` (default: the smallest number of a round);
    0.0 without such noise. The scenario is feasible, without atoms if shared noise depends on chance.
    """
    if not rests_on_chance(scenario):
        return 0.0
    return game_of(scenario).exceeds(scenario.secure_sum.colluders_per_cluster, fewest).in_run
