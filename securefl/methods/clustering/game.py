"""Odds as a game: the best that a server can do to bring one party among its colluders.

A curious server does nothing: the draw of clusters decides. An active one chooses who is announced, voids
draws that it dislikes, and loses the inputs of honest members once it knows the clusters. A sum opens with
``min_survivors`` members: a party is alone as soon as one fewer of its cluster mates collude and all honest
ones can be lost. What holds the server back is the certificate: those who are left in all clusters together
must still be a quorum. Mates as many as the threshold need none of that: they hold shares enough to open the
party's masked vector as soon as it is there. Voiding costs it nothing: it invites again, and nobody needs to
be left out of the next draw.

The header, ``plan`` and the premise of shared noise have their odds from here (ADR 0034).
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
"""How many mates have to collude, by the size of the cluster and how many parties take part."""


@dataclass(frozen=True, slots=True)
class Best:
    """The server's best play."""

    chance: float
    """In one draw of one reclustering."""
    present: int
    """With so many parties announced; 0 where it gains nothing."""
    in_run: float
    """At least once in all draws that it can have, as independent ones.

    The reclusterings of a draw have its participants in common, so that this is a bound where R > 1 and
    participants are drawn; otherwise it is exact."""


_NOTHING = Best(0.0, 0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """The numbers that it is played with. Clusters are drawn anew in every round, without atoms."""

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
    server: Literal["curious", "active"] = "active"
    openings: int = 1
    """T x R: clusterings of the run."""
    fixed: bool = False
    """One draw of everybody for the whole run."""

    @property
    def quorum(self) -> int:
        """Survivors that certify a round."""
        return quorum_of(self.parties, self.colluders)

    @property
    def draws(self) -> int:
        """Clusterings that the server can have in the run; it keeps at most one of :data:`MAX_DRAWS`."""
        if self.fixed:
            return 1
        return self.openings * (MAX_DRAWS if self.server == "active" else 1)

    def alone(self, min_survivors: int, threshold: int | None = None) -> Best:
        """The server's way to leave a given party alone among colluders in an opened sum.

        The expected draw is over the party's place, too: none where it is not drawn, else a cluster of each
        size in proportion to the members of such clusters. Its mates are a uniform choice of the others. An
        input lost in one reclustering is lost in all, which may cost the server more survivors than are
        counted: a bound where R > 1 and it loses two of a cluster.

        Args:
            min_survivors: of the scenario.
            threshold: the same; None where shares of single members open nothing.
        """

        def least(size: int, drawn: int) -> int:
            left = size - 1
            if self.server == "active":
                left = max(min_survivors, size - (drawn - self.quorum)) - 1
            return left if threshold is None else min(left, threshold)

        announced = self._announced if self.server == "active" else range(self.parties, self.parties + 1)
        return self._best(least, announced)

    def exceeds(self, f: int, fewest: int | None = None) -> Best:
        """The way to bring a given party together with more than ``f`` colluding mates.

        Whoever stays away, by the server's choice or their own.

        Args:
            f: colluders that are reckoned with.
            fewest: parties that are there in every round; without, as few as certify one.
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
        """At least the chance with this many parties or more: the more are there, the fewer of them collude.

        From m^2 participants on clusters have m or m + 1 members.
        """
        most = min(self.size + 1, self.largest) if drawn >= self.size**2 else self.largest
        return self._meeting_probability(present, most, least(most, self.quorum + most))

    def _meeting_probability(self, present: int, size: int, least: int) -> float:
        return odds.tail(present - 1, self.colluders, min(size, present) - 1, least)

    def drawn(self, present: int) -> int:
        """How many of those who are announced take part in a round; 0 where there is none."""
        if self.fixed:
            return present
        fewest = max(self.quorum, self.size) if self.server == "active" else self.size
        return most_fitting(min(self.participants, present), fewest, self.size, self.largest)


def game_of(scenario: Scenario) -> Game:
    """The numbers of a feasible scenario."""
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
    """P(a given party is left alone among colluders) in one opening, and in the run, of a feasible scenario.

    With open task groups chance is no help: colluders name the party's group. With atoms sums determine the
    party's atom, or its mates hold shares enough; the sum of both odds is a bound.
    """
    sums = scenario.secure_sum
    if tells_groups(scenario.groups) and sums.colluders:
        filled = float(sums.colluders >= min(sums.threshold, sums.min_survivors - 1))
        return filled, filled
    # Mates as many as the threshold rebuild a party's masks; CrypTen's members hold no such shares.
    threshold = sums.threshold if sums.kind == "masking" else None
    if scenario.clustering.atoms > 1:
        return _alone_in_atoms(scenario, threshold)
    best = game_of(scenario).alone(sums.min_survivors, threshold)
    return best.chance, best.in_run


def _alone_in_atoms(scenario: Scenario, threshold: int | None) -> tuple[float, float]:
    """The same, by the largest cluster of whole atoms among the fewest parties that the server may announce.

    It knows the atoms once they are kept, and may announce those that suit it: worth less to it than what is
    counted, all colluders among a quorum, as long as the threshold is above the number of atoms in a cluster.
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
    """P(all atom mates of a given party collude), in the smallest atom, at any atom draw of the run.

    Atoms are over the whole roster, so that nobody who announces participants bears on it.
    """
    parties, colluders = scenario.parties, scenario.secure_sum.colluders
    alone = odds.alone_among(parties, colluders, min(atom_sizes(parties, scenario.clustering.atoms)))
    return odds.once_in(alone, atom_draws(scenario))


def atom_draws(scenario: Scenario) -> int:
    """How often atoms can be drawn before any party keeps them: a server voids draws that it dislikes."""
    return MAX_DRAWS * scenario.stop.rounds if scenario.secure_sum.server == "active" else 1


def p_shares_fail(scenario: Scenario, fewest: int | None = None) -> float:
    """P(more than f of a given party's cluster mates collude in an opening of the run).

    For the worst numbers of present parties; 0.0 without such noise.

    Args:
        scenario: a feasible one, without atoms where shared noise rests on chance.
        fewest: parties that are there in every round; without, as few as a round may go on with.
    """
    if not rests_on_chance(scenario):
        return 0.0
    return game_of(scenario).exceeds(scenario.secure_sum.colluders_per_cluster, fewest).in_run
