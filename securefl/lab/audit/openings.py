"""Opened sums of a recorded run, and the decided leakage ledger of each update version.

A sum counts as opened once a member released shares for it, whatever the server reports (protocol.md, step
10). Different survivor sets give different rows.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from securefl.base.arrays import F64
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit.finding import Evidence
from securefl.lab.audit.recorded import Recorded
from securefl.methods import clustering, leakage, privacy
from securefl.runtime import report


@dataclass(frozen=True, slots=True)
class Opening:
    """Sum that must be assumed open."""

    reclustering: int
    cluster: int
    survivors: tuple[PartyId, ...]
    """Ascending."""
    evidence: Evidence
    by: frozenset[PartyId] = frozenset()
    """Members that released shares, and the server if it reports the opening."""

    @property
    def key(self) -> tuple[int, int, tuple[PartyId, ...]]:
        """Key within its version."""
        return self.reclustering, self.cluster, self.survivors

    def opens(self, recorded: Recorded) -> bool:
        """Return True if enough members may have released shares.

        Colluders and incomplete transcripts count as releases. A server that is killed while it collects
        shares leaves sums with too few.
        """
        plan = recorded.scenario.secure_sum
        unknown = {party for party in self.survivors if not _told_all(recorded, party)}
        given = len((self.by | unknown) - {SERVER}) + plan.colluders_per_cluster
        needed = len(self.survivors) if plan.kind == "crypten" else plan.threshold
        return SERVER in self.by or given >= needed


@dataclass(frozen=True, slots=True)
class OpenedVersion:
    """Opened sums of one update version."""

    version: leakage.UpdateVersion
    participants: tuple[PartyId, ...]
    openings: tuple[Opening, ...]

    def ledger(self, prime: int, below: int | None = None) -> leakage.LeakageLedger:
        """Return the ledger of its sums, of the first ``below`` reclusterings if given."""
        ledger = leakage.LeakageLedger.begin(self.version, self.participants, prime)
        for opening in self.openings:
            if below is None or opening.reclustering < below:
                ledger = ledger.open(opening.survivors)
        return ledger


def opened_versions(recorded: Recorded) -> tuple[OpenedVersion, ...]:
    """Return the update versions with an opened sum, in order."""
    found: dict[leakage.UpdateVersion, dict[tuple[int, int, tuple[PartyId, ...]], Opening]] = defaultdict(
        dict
    )
    rows = _from_records(recorded) if recorded.simulated else _from_transcripts(recorded)
    for round_, opening in rows:
        version = leakage.UpdateVersion(round_, clustering.upload_of(recorded.scenario, opening.reclustering))
        known = found[version].setdefault(opening.key, opening)
        found[version][opening.key] = replace(known, by=known.by | opening.by)
    present = _participants(recorded)
    return tuple(
        OpenedVersion(
            version,
            tuple(sorted(present[version.round].union(*(o.survivors for o in openings.values())))),
            tuple(opening for _, opening in sorted(openings.items())),
        )
        for version, openings in sorted(found.items())
    )


def _from_records(recorded: Recorded) -> Iterator[tuple[int, Opening]]:
    for record in recorded.records:
        for seen in record.sums:
            evidence = Evidence("metrics.jsonl", None, f"round {record.round}")
            survivors = tuple(sorted(seen.counted))
            by = frozenset({SERVER})
            yield record.round, Opening(seen.reclustering, seen.cluster, survivors, evidence, by)


def _from_transcripts(recorded: Recorded) -> Iterator[tuple[int, Opening]]:
    for entry, evidence in recorded.of(SERVER, "sum_opened"):
        opened: Mapping[str, Any] = entry.fields["opened"]  # type: ignore[assignment] # its writer made it one
        survivors = tuple(sorted(map(PartyId, opened["survivors"])))
        r, j = opened["reclustering"], opened["cluster"]
        yield _round(entry.fields), Opening(r, j, survivors, evidence, frozenset({SERVER}))
    for party in recorded.watched:
        yield from _released_by(recorded, party)


def _released_by(recorded: Recorded, party: PartyId) -> Iterator[tuple[int, Opening]]:
    survivors = {_round(e.fields): e.fields["survivors"] for e, _ in recorded.of(party, "survivors_frozen")}
    drawn = {_round(e.fields): e.fields["clusters"] for e, _ in recorded.of(party, "clusters_drawn")}
    for entry, evidence in recorded.of(party, "shares_released"):
        fields: Mapping[str, Any] = entry.fields
        round_ = _round(fields)
        seeds = fields.get("seeds_of") or [None] * len(fields["instances"])
        for (r, j), seeds_of in zip(fields["instances"], seeds, strict=True):
            counted = seeds_of
            if counted is None:
                # Earlier versions recorded no seeds; use the party's survivor set.
                clusters: Any = drawn[round_]
                counted = set(cast("list[str]", survivors[round_])).intersection(clusters[r][j])
            names = tuple(sorted(map(PartyId, counted)))
            yield round_, Opening(r, j, names, evidence, frozenset({party}))


def _told_all(recorded: Recorded, party: PartyId) -> bool:
    """Return True if all releases of a party are known."""
    left = recorded.transcripts.get(party, ())
    return bool(left) and all(each.complete for each in left)


def _participants(recorded: Recorded) -> dict[int, set[PartyId]]:
    found: dict[int, set[PartyId]] = defaultdict(set)
    for record in recorded.records:
        found[record.round] |= set(record.participants)
    for vantage in (SERVER, *recorded.watched):
        for entry, _ in recorded.of(vantage, "clusters_drawn"):
            clusters: Any = entry.fields["clusters"]
            found[_round(entry.fields)] |= {PartyId(p) for members in clusters[0] for p in members}
    return found


def _round(fields: Mapping[str, Any]) -> int:
    return int(fields["round"])


SEARCHED = 150
"""Most parties for the search of smallest supports, which takes minutes beyond."""


@dataclass(frozen=True, slots=True)
class Exposed:
    """Decided exposure of one update version."""

    opened: OpenedVersion
    ledger: leakage.LeakageLedger
    alone: leakage.Decision
    pooled: leakage.Decision
    """With assumed colluders; ``alone`` without any."""
    support: leakage.LeastSupport | None
    """None if not searched or nothing was opened."""
    leverage: F64
    """Leverage in [0, 1] by party of ``ledger``; 1 for colluders. All noise has equal variance; without
    privacy, as if all parties added noise. For a party without noise: its exposure to the others' noise in
    the same unit, cut at 1.
    """


def exposed_in(recorded: Recorded) -> tuple[Exposed, ...]:
    """Return the decided ledgers of all update versions."""
    return tuple(_exposure_of(recorded, opened) for opened in opened_versions(recorded))


def prime_of(recorded: Recorded) -> int:
    """Return a prime that was unknown when sums were chosen, from the transcripts' last hashes."""
    heads = sorted(t.head for ts in recorded.transcripts.values() for t in ts)
    return leakage.prime_from(hashlib.sha256("\n".join((recorded.run, *heads)).encode()).digest())


def _exposure_of(recorded: Recorded, opened: OpenedVersion) -> Exposed:
    ledger = opened.ledger(prime_of(recorded))
    alone = leakage.decide(ledger)
    colluders = recorded.colluders.intersection(ledger.parties)
    without = ledger
    pooled = alone
    if colluders and len(colluders) < len(ledger.parties):
        without = ledger.without(colluders)
        pooled = leakage.decide(without)
    searched = len(ledger.parties) <= SEARCHED
    return Exposed(
        opened,
        ledger,
        alone,
        pooled,
        leakage.least_support(ledger) if searched else None,
        _leverages(recorded, ledger, without),
    )


def _leverages(recorded: Recorded, ledger: leakage.LeakageLedger, without: leakage.LeakageLedger) -> F64:
    """Return the leverages of the parties of ``ledger``; those missing in ``without`` collude."""
    noiseless = _noiseless(recorded).intersection(without.parties)
    rest = np.full(len(without.parties), 1.0)
    if not noiseless:
        rest = leakage.leverages(without)
    elif len(noiseless) < len(without.parties):
        variances = np.array([float(party not in noiseless) for party in without.parties])
        rank = without.without(noiseless).echelon.rank
        rest = privacy.exposures(without.matrix, variances, rank=rank).clip(0.0, 1.0)
    known = dict(zip(without.parties, rest.tolist(), strict=True))
    return np.array([known.get(party, 1.0) for party in ledger.parties])


def _noiseless(recorded: Recorded) -> frozenset[PartyId]:
    """Return the parties without dependable noise, if the seed is known."""
    if recorded.scenario.privacy.unit == "none" or recorded.seed is None:
        return frozenset()
    return report.forgoing(recorded.scenario, recorded.seed)
