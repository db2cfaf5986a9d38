"""Opened sums, as the parties that released for them saw them: the rows of the leakage ledger.

A sum counts as opened once one member has released its shares for it, whether or not the server says that it
succeeded (protocol.md, step 10). Members that were told different survivors give different rows.

The leakage ledger of each update version of a recorded run, decided and proved.
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
    """One sum that must be taken to be open."""

    reclustering: int
    cluster: int
    survivors: tuple[PartyId, ...]
    """Whose updates it contains, ascending."""
    evidence: Evidence
    by: frozenset[PartyId] = frozenset()
    """Who has released shares for it, and the server where it says that it opened it."""

    @property
    def key(self) -> tuple[int, int, tuple[PartyId, ...]]:
        """The key that makes it another sum than others of its version."""
        return self.reclustering, self.cluster, self.survivors

    def opens(self, recorded: Recorded) -> bool:
        """Whether as many may have released as open it: colluders, and who left no whole transcript, too.

        Fewer shares tell nothing. A server that is killed as it asks for them leaves such sums.
        """
        plan = recorded.scenario.secure_sum
        unknown = {party for party in self.survivors if not _told_all(recorded, party)}
        given = len((self.by | unknown) - {SERVER}) + plan.colluders_per_cluster
        needed = len(self.survivors) if plan.kind == "crypten" else plan.threshold
        return SERVER in self.by or given >= needed


@dataclass(frozen=True, slots=True)
class OpenedVersion:
    """All sums of one update version."""

    version: leakage.UpdateVersion
    participants: tuple[PartyId, ...]
    openings: tuple[Opening, ...]
    """In the order of reclusterings and clusters."""

    def ledger(self, prime: int, below: int | None = None) -> leakage.LeakageLedger:
        """The ledger of its sums, of the first ``below`` reclusterings only if that is given."""
        ledger = leakage.LeakageLedger.begin(self.version, self.participants, prime)
        for opening in self.openings:
            if below is None or opening.reclustering < below:
                ledger = ledger.open(opening.survivors)
        return ledger


def opened_versions(recorded: Recorded) -> tuple[OpenedVersion, ...]:
    """All update versions of which a sum was opened, in order."""
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
    told = {_round(e.fields): e.fields["survivors"] for e, _ in recorded.of(party, "survivors_frozen")}
    drawn = {_round(e.fields): e.fields["clusters"] for e, _ in recorded.of(party, "clusters_drawn")}
    for entry, evidence in recorded.of(party, "shares_released"):
        fields: Mapping[str, Any] = entry.fields
        round_ = _round(fields)
        seeds = fields.get("seeds_of") or [None] * len(fields["instances"])
        for (r, j), seeds_of in zip(fields["instances"], seeds, strict=True):
            counted = seeds_of
            if counted is None:
                # Earlier versions did not record the seeds; then what the party was told has to do.
                clusters: Any = drawn[round_]
                counted = set(cast("list[str]", told[round_])).intersection(clusters[r][j])
            names = tuple(sorted(map(PartyId, counted)))
            yield round_, Opening(r, j, names, evidence, frozenset({party}))


def _told_all(recorded: Recorded, party: PartyId) -> bool:
    """Whether all that a party has released is known."""
    left = recorded.transcripts.get(party, ())
    return bool(left) and all(each.complete for each in left)


def _participants(recorded: Recorded) -> dict[int, set[PartyId]]:
    """By round, who was in a cluster."""
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
"""Parties up to which smallest supports are searched: minutes beyond."""


@dataclass(frozen=True, slots=True)
class Exposed:
    """The decided exposure of one update version."""

    opened: OpenedVersion
    ledger: leakage.LeakageLedger
    """Of the server alone."""
    alone: leakage.Decision
    pooled: leakage.Decision
    """With the supposed colluders, whose columns are deleted; the same as ``alone`` without any."""
    support: leakage.LeastSupport | None
    """None where nothing was opened, or where it was not searched."""
    leverage: F64
    """By party of ``ledger``, in [0, 1], with the colluders, who have 1. Those who add noise add equally
    much; without privacy, as if everybody added it. A party that adds none has what the noise of others
    leaves of it, in the same unit; 1 stands for more, too."""


def exposed_in(recorded: Recorded) -> tuple[Exposed, ...]:
    """The ledgers of all update versions."""
    return tuple(_decided(recorded, opened) for opened in opened_versions(recorded))


def prime_of(recorded: Recorded) -> int:
    """A prime that nobody knew when the sums were chosen: it follows from the transcripts' last hashes."""
    heads = sorted(t.head for ts in recorded.transcripts.values() for t in ts)
    return leakage.prime_from(hashlib.sha256("\n".join((recorded.run, *heads)).encode()).digest())


def _decided(recorded: Recorded, opened: OpenedVersion) -> Exposed:
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
    """Of the parties of ``ledger``, where those that ``without`` lacks collude."""
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
    """The parties whose noise nobody can count on, as far as the run's seed tells."""
    if recorded.scenario.privacy.unit == "none" or recorded.seed is None:
        return frozenset()
    return report.forgoing(recorded.scenario, recorded.seed)
