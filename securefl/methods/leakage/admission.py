"""Admission of a round's reclusterings for opening (protocol.md, step 8), the same for party and server.

A reclustering is opened with all its sums or not at all: every survivor is in equally many.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from securefl.base import crypto
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.methods.leakage.ledger import LeakageLedger, UpdateVersion
from securefl.methods.leakage.limits import TOLERANCE, Crossing, LeakageLimits, crossings
from securefl.methods.leakage.modular import prime_from

Sums = tuple[tuple[PartyId, ...], ...]
"""Members of each sum, sorted."""
Openings = Mapping[UpdateVersion, Sums]
"""Sums that are opened, or count as opened, by update version."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Reclusterings of one round that may be opened."""

    openings: Openings
    """All admitted sums, by update version."""
    admitted: tuple[int, ...]
    """Ascending."""
    withheld: Mapping[int, tuple[Crossing, ...]]
    """Crossings that each other reclustering would cause on top of those admitted before it."""
    certain: bool
    """True if it is right for any prime; otherwise it is wrong with at most the squared doubt of the
    ledger."""

    def head(self) -> bytes:
        """Return the hash (32 bytes) of all openings, which parties sign; independent of the prime."""
        fields = [crypto.encode(*self.admitted)]
        for version, sums in sorted(self.openings.items()):
            fields.append(crypto.encode(*version, len(sums)))
            fields += [crypto.encode(*members) for members in sums]
        return crypto.digest("leakage ledger", *fields)


def admit(
    assignment: clustering.Assignment,
    survivors: Collection[PartyId],
    limits: Mapping[PartyId, LeakageLimits],
    *,
    round_: int,
    seed: bytes,
    new_work: bool,
) -> Admission:
    """Decide for each reclustering in order whether to open it: none may cross any limit.

    Sums count as opened once they may be released, whatever the server reports.

    Args:
        assignment: the round's clusters.
        survivors: the certified survivor set S.
        limits: of all parties with demands; empty if leakage is only reported.
        round_: the global round.
        seed: determines the primes. Unless the result is ``certain``, parties that influence assignment or
            survivors must not know it.
        new_work: True if each reclustering sums an update of its own.
    """
    every = range(len(assignment.clusters))
    grouped = (
        [(UpdateVersion(round_, r), [r]) for r in every] if new_work else [(UpdateVersion(round_), every)]
    )
    openings: dict[UpdateVersion, Sums] = {}
    admitted: list[int] = []
    withheld: dict[int, tuple[Crossing, ...]] = {}
    certain = True
    for version, reclusterings in grouped:
        rows = {r: _alive(assignment, survivors, r) for r in reclusterings}
        ledgers = _Book(version, limits, seed)
        kept, crossed = ledgers.admit_rows(rows)
        openings[version] = tuple(row for r in kept for row in rows[r])
        admitted += kept
        withheld |= crossed
        certain = certain and ledgers.certain
    return Admission(openings, tuple(admitted), withheld, certain)


def judge_sums(
    version: UpdateVersion, sums: Sums, limits: Mapping[PartyId, LeakageLimits], seed: bytes
) -> tuple[Crossing, ...]:
    """Return the limits that ``sums`` of a common update cross together, from any reclusterings or rounds.

    ``limits`` holds all parties with demands; ``seed`` is as in :func:`admit`.
    """
    _, crossed = _Book(version, limits, seed).admit_rows({0: sums})
    return crossed.get(0, ())


class _Book:
    def __init__(self, version: UpdateVersion, limits: Mapping[PartyId, LeakageLimits], seed: bytes) -> None:
        self.certain = True
        self._version = version
        self._limits = limits
        self._seed = seed

    def admit_rows(self, rows: Mapping[int, Sums]) -> tuple[list[int], dict[int, tuple[Crossing, ...]]]:
        together = tuple(row for sums in rows.values() for row in sums)
        if not together or _harmless(together, self._limits):
            return list(rows), {}
        columns = sorted({party for row in together for party in row})
        ledger = LeakageLedger.begin(self._version, columns, prime_from(self._seed))
        # More sums never cross fewer limits: if all together are harmless, each of them is.
        everything = ledger
        for sums in rows.values():
            everything = _with(everything, sums)
        if not self._judge(everything, len(rows)):
            return list(rows), {}
        kept: list[int] = []
        crossed: dict[int, tuple[Crossing, ...]] = {}
        for r, sums in rows.items():
            grown = _with(ledger, sums)
            found = self._judge(grown, len(kept) + 1)
            if found:
                crossed[r] = found
            else:
                ledger = grown
                kept.append(r)
        return kept, crossed

    def _judge(self, ledger: LeakageLedger, partitions: int) -> tuple[Crossing, ...]:
        """Return the crossings; unless the rank is certain, check modulo a second prime.

        All ``partitions`` reclusterings have the same total, so the rank is at most the number of sums less
        ``partitions`` - 1. At that rank modulo the prime, searches for supports are proofs. Otherwise an
        adversary may have searched for survivors that suit one prime, but hardly two.
        """
        found = crossings(ledger, self._limits)
        most = min(len(ledger.openings) - partitions + 1, len(ledger.parties))
        if found or ledger.echelon.rank == most or not ledger.doubt:
            return found
        self.certain = False
        return crossings(ledger.modulo(prime_from(self._seed + b"again")), self._limits)


def _harmless(sums: Sums, limits: Mapping[PartyId, LeakageLimits]) -> bool:
    """Return True if a check without algebra shows that all limits are kept.

    Parties in exactly the same sums have equal coefficients in every combination, so it contains all or none
    of them, and leverages are at most 1 over their number.
    """
    if not limits:
        return True
    places: dict[PartyId, list[int]] = {}
    for number, row in enumerate(sums):
        for party in row:
            places.setdefault(party, []).append(number)
    alike = Counter(map(tuple, places.values()))
    return all(
        alike[tuple(places[party])] >= demand.support
        and demand.leverage + TOLERANCE >= 1 / max(alike[tuple(places[party])] - demand.colluders, 1)
        for party, demand in limits.items()
        if party in places
    )


def _alive(assignment: clustering.Assignment, survivors: Collection[PartyId], reclustering: int) -> Sums:
    kept = set(survivors)
    rows = (tuple(p for p in members if p in kept) for members in assignment.clusters[reclustering])
    return tuple(row for row in rows if row)


def _with(ledger: LeakageLedger, sums: Sequence[tuple[PartyId, ...]]) -> LeakageLedger:
    for members in sums:
        ledger = ledger.open(members)
    return ledger
