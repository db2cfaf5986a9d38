"""Sums on a model that came before: they are sums of the same updates, whichever round they are of.

An update follows from the data and the model that it was trained on. A server that sends one model again
and again gets other clusters each time, and so equations in the same unknowns, as from reclusterings; fresh
batches only add noise to them (docs/leakage.md). So what a party gives away is kept by the model's digest,
across rounds, restarts and runs, and what a round adds is judged together with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from securefl.base.ids import PartyId
from securefl.base.sums import exact_sum
from securefl.methods.leakage import admission
from securefl.methods.leakage.ledger import UpdateVersion
from securefl.methods.leakage.limits import Crossing, LeakageLimits

REPEATED_LEVERAGE = 0.75
"""The most that a party's leverage may be once a model repeats, whatever its own limit is.

Before sums determine an update they say nearly all of it: at leverage l the best estimate of what tells it
from the others is wrong by sqrt(1 - l), .5 here, fresh batches not counted. An honest server repeats a
model only after rounds without an update.
"""

Given = Mapping[bytes, admission.Sums]
"""Sums that count as opened, each once, by digest of the model that their updates were trained on."""

NO_LIMITS = LeakageLimits(group=1)
NOTHING_GIVEN: Given = MappingProxyType({})
NOBODY_KNOWN: Mapping[bytes, frozenset[PartyId]] = MappingProxyType({})
_LATEST = 64
"""Models that are copied when one more comes, at most."""


class _Joined(Mapping[bytes, admission.Sums]):
    """Sums by model, the latest models apart: of a thousand rounds not all are copied in each."""

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


def joined(given: Given, more: Given) -> Given:
    """What was given before and what is given now. A sum of the same members says nothing new."""
    former, latest = (given.former, dict(given.latest)) if isinstance(given, _Joined) else (given, {})
    for model, sums in more.items():
        latest[model] = tuple(dict.fromkeys((*given.get(model, ()), *sums)))
    if len(latest) <= _LATEST:
        return _Joined(former, latest)
    return _Joined({**former, **latest}, NOTHING_GIVEN)


def repeated(given: Given, now: Given, known: Mapping[bytes, frozenset[PartyId]] = NOBODY_KNOWN) -> Given:
    """Return the sums that ``now`` adds on models that occurred before.

    A model occurred if sums of it were given, or if updates on it may be ``known``.
    """
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
    """Limits that sums cross together with earlier ones on the same models; empty where they cross none.

    All works of a round count as one update here: on a model that repeats they are fresh batches, as rounds
    are. Rounds that add no sum of other members are not judged again.

    Args:
        given: what was given before.
        now: the sums of a round that may be opened.
        limits: of every party, in the sums or not: one scenario, one demand.
        seed: that primes follow from. Whoever shapes the sums must not know it.
        known: parties whose updates on a model may follow from sums of others, by model: the sums are judged
            without them.
    """
    found: tuple[Crossing, ...] = ()
    for number, (model, added) in enumerate(sorted(repeated(given, now, known).items())):
        sums = _without((*given.get(model, ()), *added), known.get(model, frozenset()))
        parties, version = _members(sums), UpdateVersion(number)
        crossed = admission.judged(version, sums, dict.fromkeys(parties, limits), seed + model)
        if limits != NO_LIMITS and not crossed:
            # Without colluders: with many of them leverages are too much to search, and that would end runs.
            nearly = LeakageLimits(group=1, leverage=REPEATED_LEVERAGE)
            crossed = admission.judged(version, sums, dict.fromkeys(parties, nearly), seed + model)
        found += crossed
    return found


def _without(sums: admission.Sums, known: Collection[PartyId]) -> admission.Sums:
    """Sums of the unknown updates alone, each once."""
    if not known:
        return sums
    rows = (tuple(party for party in row if party not in known) for row in sums)
    return tuple(dict.fromkeys(row for row in rows if row))


def _members(sums: Collection[tuple[PartyId, ...]]) -> list[PartyId]:
    return sorted({party for row in sums for party in row})
