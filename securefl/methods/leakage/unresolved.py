"""Rounds with a party's masked input for which the party does not know which of their sums were opened.

Other members' shares may open a sum with the party's input. So its cluster is *unresolved* until all but a
few members state that they released no shares, and never will (docs/protocol.md, "Rounds without a
certificate").

A server that repeats a model gets equations in the same updates, as from reclusterings (docs/leakage.md). So
a party keeps its released sums by the model's digest, across rounds, restarts and runs, and judges a round's
sums together with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from securefl.base.ids import PartyId
from securefl.base.sums import exact_sum
from securefl.methods.leakage import admission
from securefl.methods.leakage.ledger import UpdateVersion
from securefl.methods.leakage.limits import Crossing, LeakageLimits

REPEATED_LEVERAGE = 0.75
"""Largest leverage of a party once a model repeats, for any limit of its own.

At leverage l the best estimate of its update's difference from the others has a relative error of sqrt(1 -
l), 0.5 here, not counting fresh batches."""

Given = Mapping[bytes, admission.Sums]
"""Sums that count as opened, each once, by digest of the model on which their updates were trained."""

NO_LIMITS = LeakageLimits(group=1)
NOTHING_GIVEN: Given = MappingProxyType({})
NOBODY_KNOWN: Mapping[bytes, frozenset[PartyId]] = MappingProxyType({})
_LATEST = 64
"""Largest number of models copied when one more arrives."""


class _Joined(Mapping[bytes, admission.Sums]):
    """Sums by model, with the latest models separate, so that a round copies few of them."""

    __slots__ = ("former", "latest")

    def __init__(self, former: Given, latest: Given) -> None:
        self.former = former
        self.latest = latest

    def __getitem__(self, model: bytes) -> admission.Sums:
        return self.latest[model] if model in self.latest else self.former[model]

    def __iter__(self) -> Iterator[bytes]:
        yield from self.former
        yield from (model for model in self.latest if model not in self.former)

    def __len__(self) -> int:
        return len(self.former) + exact_sum(model not in self.former for model in self.latest)


def join_releases(given: Given, more: Given) -> Given:
    """Return earlier and new releases together, each sum of the same members once."""
    former, latest = (given.former, dict(given.latest)) if isinstance(given, _Joined) else (given, {})
    for model, sums in more.items():
        latest[model] = tuple(dict.fromkeys((*given.get(model, ()), *sums)))
    if len(latest) <= _LATEST:
        return _Joined(former, latest)
    return _Joined({**former, **latest}, NOTHING_GIVEN)


def repeated_sums(
    given: Given, now: Given, known: Mapping[bytes, frozenset[PartyId]] = NOBODY_KNOWN
) -> Given:
    """Return the sums that ``now`` adds on models that are in ``given`` or in ``known``."""
    return {
        model: added
        for model, sums in now.items()
        if (model in given or model in known)
        and (added := tuple(row for row in sums if row not in given.get(model, ())))
    }


def crossed_together(
    given: Given,
    now: Given,
    limits: LeakageLimits,
    seed: bytes,
    known: Mapping[bytes, frozenset[PartyId]] = NOBODY_KNOWN,
) -> tuple[Crossing, ...]:
    """Return the limits that sums cross together with earlier ones on the same models.

    All works of a round count as one update: on a repeated model they are fresh batches, like rounds. Rounds
    that add no sum of other members are not judged again. Parties that influence the sums must not know
    ``seed``, which determines the primes. Sums are judged without ``known`` parties, whose updates on a model
    may follow from sums of others.
    """
    found: tuple[Crossing, ...] = ()
    for number, (model, added) in enumerate(sorted(repeated_sums(given, now, known).items())):
        sums = _without((*given.get(model, ()), *added), known.get(model, frozenset()))
        parties, version = _members(sums), UpdateVersion(number)
        crossed = admission.judge_sums(version, sums, dict.fromkeys(parties, limits), seed + model)
        if limits != NO_LIMITS and not crossed:
            # Without colluders: with many, leverages are undecidable in a round, and that would end runs.
            nearly = LeakageLimits(group=1, leverage=REPEATED_LEVERAGE)
            crossed = admission.judge_sums(version, sums, dict.fromkeys(parties, nearly), seed + model)
        found += crossed
    return found


def _without(sums: admission.Sums, known: Collection[PartyId]) -> admission.Sums:
    """Return sums of the unknown updates alone, each once."""
    if not known:
        return sums
    rows = (tuple(party for party in row if party not in known) for row in sums)
    return tuple(dict.fromkeys(row for row in rows if row))


def _members(sums: Collection[tuple[PartyId, ...]]) -> list[PartyId]:
    return sorted({party for row in sums for party in row})


@dataclass(frozen=True, slots=True)
class UnresolvedRound:
    """One round with the party's masked input."""

    run: str
    """Id of the round's run; empty if another server led it, so that no statement refers to it."""
    round: int
    drawn: Given
    """Members, as drawn, of each cluster that may be open, by digest of its updates' model."""
    silent: int
    """Largest number of members without a statement in a closed cluster: threshold - 1 - colluders."""
    stated: frozenset[PartyId] = frozenset()
    """Members that have stated that they released no shares, including the party itself."""

    def clusters_of(self, party: PartyId) -> Given:
        """Return the clusters that contain the party."""
        return _only(self.drawn, lambda row: party in row)

    def hear(self, parties: Iterable[PartyId]) -> tuple[UnresolvedRound, Given]:
        """Add these parties' statements; return the round with clusters that may be open, and closed ones."""
        stated = self.stated.union(parties)
        closed = _only(self.drawn, lambda row: is_closed_by(row, stated, self.silent))
        left = _only(self.drawn, lambda row: not is_closed_by(row, stated, self.silent))
        return replace(self, drawn=left, stated=stated), closed


def is_closed_by(members: Iterable[PartyId], stated: Collection[PartyId], silent: int) -> bool:
    """Return True if too few members are without a statement to open their sum.

    With ``silent`` = threshold - 1 - f, and f false statements, at most threshold - 1 members release shares.
    """
    return exact_sum(member not in stated for member in members) <= silent


def silent_members(threshold: int, colluders: int) -> int:
    """Return the largest number of members without a statement in a closed cluster; -1 for none.

    ``threshold`` members' shares open a sum; up to ``colluders`` statements in a cluster may be false.
    """
    return max(threshold - 1 - colluders, -1)


def unresolved_models(rounds: Iterable[UnresolvedRound], party: PartyId) -> frozenset[bytes]:
    """Return the models on which a sum with an update of the party may have been opened."""
    return frozenset(model for one in rounds for model in one.clusters_of(party))


def doubtful_members(rounds: Iterable[UnresolvedRound], party: PartyId) -> Mapping[bytes, frozenset[PartyId]]:
    """Return the members of other clusters that may have been opened, by model.

    Their survivors are unknown: assuming that all members' updates are known covers each survivor set.
    """
    found: dict[bytes, frozenset[PartyId]] = {}
    for one in rounds:
        for model, rows in one.drawn.items():
            others = frozenset(member for row in rows if party not in row for member in row)
            if others:
                found[model] = found.get(model, frozenset()) | others
    return MappingProxyType(found)


def _only(given: Given, wanted: Callable[[tuple[PartyId, ...]], bool]) -> Given:
    kept = {model: tuple(row for row in rows if wanted(row)) for model, rows in given.items()}
    return MappingProxyType({model: rows for model, rows in kept.items() if rows}) if kept else NOTHING_GIVEN
