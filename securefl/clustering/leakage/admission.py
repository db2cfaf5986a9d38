"""Which of a round's reclusterings may be opened: the decision of protocol.md, step 8, for party and server.

Everybody computes it from the certified survivors, so that nobody has to be told what to release, and no
server can ask for more. A reclustering is opened with all its sums or not at all: every survivor is then in
as many sums as any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from securefl.clustering.assignment import Assignment
from securefl.clustering.leakage.ledger import LeakageLedger, UpdateVersion
from securefl.clustering.leakage.limits import Crossing, LeakageLimits, crossings
from securefl.clustering.leakage.modular import prime_from
from securefl.crypto.labels import digest, encode
from securefl.ids import PartyId

Sums = tuple[tuple[PartyId, ...], ...]
"""The members of each sum, sorted."""

NO_SUMS: Mapping[UpdateVersion, Sums] = {}


@dataclass(frozen=True, slots=True)
class Admission:
    """What may be opened of one round."""

    ledgers: tuple[LeakageLedger, ...]
    """By update version: what was opened before, and all that is admitted now, taken as opened."""
    admitted: tuple[int, ...]
    """Reclusterings, ascending."""
    withheld: Mapping[int, tuple[Crossing, ...]]
    """Whose limits each other reclustering would cross, on top of those admitted before it."""

    @property
    def opened(self) -> dict[UpdateVersion, Sums]:
        """All sums that count as opened, by update version: the history of whatever comes later."""
        return {ledger.version: _named(ledger) for ledger in self.ledgers}

    def head(self) -> bytes:
        """Hash (32 bytes) of the ledgers, for the parties to sign. The prime is drawn later and no part."""
        fields: list[bytes] = []
        for ledger in self.ledgers:
            fields.append(encode(*ledger.version, *ledger.parties))
            fields += [encode(*members) for members in _named(ledger)]
        return digest("leakage ledger", encode(*self.admitted), *fields)


def admit(
    assignment: Assignment,
    survivors: Collection[PartyId],
    limits: Mapping[PartyId, LeakageLimits],
    *,
    round_: int,
    seed: bytes,
    new_work: bool,
    history: Mapping[UpdateVersion, Sums] = NO_SUMS,
) -> Admission:
    """Decide, reclustering by reclustering in their order, whether to open it: none crosses any limit.

    Sums count as opened once they may be released, whether or not the server says that it opened them.

    Args:
        assignment: the round's clusters.
        survivors: the certified survivor set S.
        limits: of all parties that demand any; of nobody where leakage is only reported.
        round_: the global round.
        seed: that the prime follows from. Whoever shapes assignment or survivors should not have known it;
            where that matters (see ``_judge``) two primes are drawn.
        new_work: whether each reclustering sums an update of its own.
        history: sums of the same update versions that were released before. They are never withheld.
    """
    versions = [UpdateVersion(round_, r) for r in range(len(assignment.clusters))]
    grouped: list[tuple[UpdateVersion, list[int]]] = (
        [(version, [version.work]) for version in versions]
        if new_work
        else [(UpdateVersion(round_), [version.work for version in versions])]
    )
    ledgers: list[LeakageLedger] = []
    admitted: list[int] = []
    withheld: dict[int, tuple[Crossing, ...]] = {}
    for version, reclusterings in grouped:
        before = history.get(version, ())
        columns = {*assignment.participants, *(party for members in before for party in members)}
        ledger = _with(LeakageLedger.begin(version, columns, prime_from(seed)), before)
        rows = {r: _alive(assignment, survivors, r) for r in reclusterings}
        ledger, kept, crossed = _admitted(ledger, rows, limits, seed)
        ledgers.append(ledger)
        admitted += kept
        withheld |= crossed
    return Admission(tuple(ledgers), tuple(admitted), withheld)


def _admitted(
    ledger: LeakageLedger, rows: Mapping[int, Sums], limits: Mapping[PartyId, LeakageLimits], seed: bytes
) -> tuple[LeakageLedger, list[int], dict[int, tuple[Crossing, ...]]]:
    # More sums cross more limits, never fewer: if all together are harmless, each of them is.
    everything = ledger
    for sums in rows.values():
        everything = _with(everything, sums)
    if not limits or not _judge(everything, len(rows), limits, seed):
        return everything, list(rows), {}
    kept: list[int] = []
    crossed: dict[int, tuple[Crossing, ...]] = {}
    for r, sums in rows.items():
        grown = _with(ledger, sums)
        found = _judge(grown, len(kept) + 1, limits, seed)
        if found:
            crossed[r] = found
        else:
            ledger = grown
            kept.append(r)
    return ledger, kept, crossed


def _judge(
    ledger: LeakageLedger, partitions: int, limits: Mapping[PartyId, LeakageLimits], seed: bytes
) -> tuple[Crossing, ...]:
    """Crossings, modulo a second prime too unless the rank is certain.

    Each of ``partitions`` reclusterings sums up to the same total, so that no rank is above the number of
    sums less all but one of them. Where the rank modulo the prime reaches that it is the rational one, and
    all searches for supports are proofs, whatever the prime. Otherwise somebody may have tried which
    survivors suit the prime; two primes that mislead together are out of reach.
    """
    found = crossings(ledger, limits)
    most = min(len(ledger.openings) - partitions + 1, len(ledger.parties))
    if found or ledger.echelon.rank == most or not ledger.doubt:
        return found
    return crossings(ledger.modulo(prime_from(seed + b"again")), limits)


def _alive(assignment: Assignment, survivors: Collection[PartyId], reclustering: int) -> Sums:
    kept = set(survivors)
    rows = (tuple(p for p in members if p in kept) for members in assignment.clusters[reclustering])
    return tuple(row for row in rows if row)


def _with(ledger: LeakageLedger, sums: Sequence[tuple[PartyId, ...]]) -> LeakageLedger:
    for members in sums:
        ledger = ledger.open(members)
    return ledger


def _named(ledger: LeakageLedger) -> Sums:
    return tuple(tuple(ledger.parties[column] for column in row) for row in ledger.openings)
