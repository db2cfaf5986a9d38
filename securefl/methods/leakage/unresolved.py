"""Rounds that took a party's masked input, while the party does not know which of their sums were opened.

A sum opens with the shares of ``threshold`` members, whether or not the party is one of them. So from its
masked input on, each cluster of the round is *unresolved*. A cluster is closed for good once the members that
have not stated that they released nothing, and never will, are too few to open it (docs/protocol.md, "Rounds
without a certificate").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from securefl.base import sums
from securefl.base.ids import PartyId
from securefl.methods.leakage import repeats


@dataclass(frozen=True, slots=True)
class UnresolvedRound:
    """One round that took the party's masked input."""

    run: str
    """Id of the round's run; empty if another server led it, so that no statement refers to it."""
    round: int
    drawn: repeats.Given
    """Members, as drawn, of each cluster that may be open, by digest of its updates' model."""
    silent: int
    """Most members without a statement of a cluster that stays closed: threshold - 1 - colluders."""
    stated: frozenset[PartyId] = frozenset()
    """Members that have stated that they released nothing, the party itself among them."""

    def clusters_of(self, party: PartyId) -> repeats.Given:
        """Return the clusters that the party is in."""
        return _only(self.drawn, lambda row: party in row)

    def hear(self, parties: Iterable[PartyId]) -> tuple[UnresolvedRound, repeats.Given]:
        """Add statements of these parties.

        Returns:
            The round with the clusters that may still be open, and those that are closed now.
        """
        stated = self.stated.union(parties)
        closed = _only(self.drawn, lambda row: is_closed_by(row, stated, self.silent))
        left = _only(self.drawn, lambda row: not is_closed_by(row, stated, self.silent))
        return replace(self, drawn=left, stated=stated), closed


def is_closed_by(members: Iterable[PartyId], stated: Collection[PartyId], silent: int) -> bool:
    """Return True if too few members are without a statement to open their sum.

    With ``silent`` = threshold - 1 - f, and f members whose statements are false, at most threshold - 1
    members release shares.
    """
    return sums.exact_sum(member not in stated for member in members) <= silent


def silent_members(threshold: int, colluders: int) -> int:
    """Return the most members without a statement of a cluster that stays closed; -1 for none.

    Args:
        threshold: members whose shares open a sum.
        colluders: members of one cluster that may lie.
    """
    return max(threshold - 1 - colluders, -1)


def unresolved_models(rounds: Iterable[UnresolvedRound], party: PartyId) -> frozenset[bytes]:
    """Return the models on which a sum with an update of the party may have been opened."""
    return frozenset(model for one in rounds for model in one.clusters_of(party))


def doubtful_members(rounds: Iterable[UnresolvedRound], party: PartyId) -> Mapping[bytes, frozenset[PartyId]]:
    """Return the members of others' clusters that may have been opened, by model.

    Which of them survived is not known, so that no row stands for such a sum. To assume that the updates of
    all its members are known covers each survivor set.
    """
    found: dict[bytes, frozenset[PartyId]] = {}
    for one in rounds:
        for model, rows in one.drawn.items():
            others = frozenset(member for row in rows if party not in row for member in row)
            if others:
                found[model] = found.get(model, frozenset()) | others
    return MappingProxyType(found)


def _only(given: repeats.Given, wanted: Callable[[tuple[PartyId, ...]], bool]) -> repeats.Given:
    kept = {model: tuple(row for row in rows if wanted(row)) for model, rows in given.items()}
    return (
        MappingProxyType({model: rows for model, rows in kept.items() if rows})
        if kept
        else repeats.NOTHING_GIVEN
    )
