"""Leakage ledger: the information of sums of one update version about single parties, a row for each sum.

A row has ones for the certified survivors. A party is exposed if its unit vector is a combination of the
rows: the same combination of the sums is its update (docs/leakage.md). Two sums that differ by one dropout
expose it.

Results are computed modulo a prime, and are wrong with probability at most :attr:`LeakageLedger.doubt`.
:mod:`securefl.methods.leakage.proofs` turns them into integers that any party can check.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from securefl.base.arrays import I64
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.methods.leakage import modular
from securefl.methods.leakage.echelon import Echelon


class UpdateVersion(NamedTuple):
    """Updates that sums have in common: one global round, or one local work of it.

    ``work`` counts reclusterings if each has new local work, else 0.
    """

    round: int
    work: int = 0


@dataclass(frozen=True)
class LeakageLedger:
    """All sums of one update version that are opened, or count as opened."""

    version: UpdateVersion
    parties: tuple[PartyId, ...]
    """Columns, ascending."""
    prime: int
    """Prime in [2^60, 2^61), drawn at random after the parties that influence the rows committed to them."""
    openings: tuple[tuple[int, ...], ...] = ()
    """Columns in each sum, ascending, in the order of opening."""
    independent: tuple[int, ...] = field(default=(), repr=False)
    """Indices of the openings that are not combinations of earlier ones."""
    echelon: Echelon = field(compare=False, repr=False, kw_only=True)

    @classmethod
    def begin(cls, version: UpdateVersion, parties: Iterable[PartyId], prime: int) -> LeakageLedger:
        """Return a ledger without sums; no party, or a prime that is not one of 61 bits, is a UsageError."""
        columns = tuple(sorted(set(parties)))
        if not columns or prime.bit_length() != modular.BITS or not modular.is_prime(prime):
            raise UsageError(
                f"parties must be at least 1 and prime a prime of {modular.BITS} bits; found"
                f" {len(columns)} parties, prime {prime}"
            )
        return cls(version, columns, prime, echelon=Echelon.empty(prime, len(columns)))

    def open(self, survivors: Collection[PartyId]) -> LeakageLedger:
        """Return the ledger with one more sum, of the certified members ``survivors``.

        Raises:
            UsageError: no members, or one that is not a party of the ledger.
        """
        members = set(survivors)
        row = tuple(column for column, party in enumerate(self.parties) if party in members)
        if not row or len(row) != len(members):
            raise UsageError(
                f"survivors must be 1 or more parties of the ledger, found {len(members)} of which it has"
                f" {len(row)}"
            )
        return self._with(row)

    def _with(self, row: tuple[int, ...]) -> LeakageLedger:
        entries = np.zeros(len(self.parties), np.int64)
        entries[list(row)] = 1
        echelon = self.echelon.append(entries)
        grew = (len(self.openings),) if echelon is not self.echelon else ()
        return LeakageLedger(
            self.version,
            self.parties,
            self.prime,
            (*self.openings, row),
            self.independent + grew,
            echelon=echelon,
        )

    def without(self, colluders: Collection[PartyId]) -> LeakageLedger:
        """Return the ledger as colluders and the server see it, without the known columns of colluders.

        Openings keep their indices, even if empty.

        Raises:
            UsageError: a colluder is not a party of the ledger, or no other party is left.
        """
        known = set(colluders)
        kept = [column for column, party in enumerate(self.parties) if party not in known]
        if len(kept) + len(known) != len(self.parties):
            raise UsageError("colluders must be parties of the ledger, found one that is not")
        number = {column: place for place, column in enumerate(kept)}
        ledger = LeakageLedger.begin(self.version, (self.parties[column] for column in kept), self.prime)
        for row in self.openings:
            ledger = ledger._with(tuple(number[column] for column in row if column in number))
        return ledger

    def modulo(self, prime: int) -> LeakageLedger:
        """Return the ledger of the same sums modulo another prime."""
        ledger = LeakageLedger.begin(self.version, self.parties, prime)
        for row in self.openings:
            ledger = ledger._with(row)
        return ledger

    @property
    def matrix(self) -> I64:
        """A: ``(openings, parties)``, 1 where the sum contains the party, else 0."""
        rows = np.zeros((len(self.openings), len(self.parties)), np.int64)
        for number, row in enumerate(self.openings):
            rows[number, list(row)] = 1
        return rows

    @property
    def exposed(self) -> frozenset[PartyId]:
        """Parties whose updates the sums determine."""
        return frozenset(self.parties[column] for column in self.echelon.units)

    @property
    def kernel_dimension(self) -> int:
        """Dimension of the space of changes of the updates that no opened sum shows."""
        return len(self.parties) - self.echelon.rank

    @property
    def doubt(self) -> float:
        """Bound on the probability, over the prime, that rank or :attr:`exposed` are wrong.

        They are the rational ones if the prime divides none of N + 1 nonzero minors. These are a largest one
        of A, and for each unexposed party one of A with its unit vector below. A minor of order n of zeros
        and ones is at most (n + 1)^((n + 1) / 2) / 2^n (Hadamard). It has at most log2 of that over 60 prime
        factors of 61 bits.
        """
        order = min(len(self.openings), len(self.parties) - 1) + 1
        bits = (order + 1) / 2 * math.log2(order + 1) - order
        return (len(self.parties) + 1) * math.floor(max(bits, 0.0) / (modular.BITS - 1)) / modular.PRIMES


def plan_ledgers(
    assignment: clustering.Assignment,
    survivors: Collection[PartyId],
    round_: int,
    prime: int,
    *,
    new_work: bool,
) -> tuple[LeakageLedger, ...]:
    """Return the ledgers of a round as every party computes them before it releases (protocol.md, step 8).

    All sums of the survivors, the global survivor set S, count as opened. With ``new_work`` each
    reclustering, which sums an update of its own, has its own ledger.

    Raises:
        UsageError: no participants, or ``prime`` is not a prime of 61 bits.
    """
    works = [(row,) for row in assignment.clusters] if new_work else [assignment.clusters]
    ledgers = []
    for work, rows in enumerate(works):
        ledger = LeakageLedger.begin(UpdateVersion(round_, work), assignment.participants, prime)
        for members in (members for row in rows for members in row):
            if alive := set(survivors).intersection(members):
                ledger = ledger.open(alive)
        ledgers.append(ledger)
    return tuple(ledgers)
