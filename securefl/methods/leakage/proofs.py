"""Integer proofs that any party can check with additions: exposed parties, and unexposed ones.

A combination of the sums that is a multiple of one unit vector exposes that party. Integers w_i with A w = 0
are a witness: updates x and x + w give the same sums, so no party with w_i != 0 is determined.
"""

import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from securefl.base import sums
from securefl.base.arrays import I64
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.leakage.echelon import Echelon
from securefl.methods.leakage.ledger import LeakageLedger
from securefl.methods.leakage.lifting import solve
from securefl.methods.leakage.modular import prime_from

_TRIES = 4


@dataclass(frozen=True, slots=True)
class Combination:
    """Integer combination of sums: a factor per opening, and the contents of the combined sums per party."""

    factors: tuple[int, ...]
    value: tuple[int, ...]

    def holds(self, ledger: LeakageLedger) -> bool:
        """Return True if ``factors @ A == value``, over the integers, and the value is not 0."""
        if len(self.factors) != len(ledger.openings):
            return False
        return any(self.value) and _combine_columns(ledger, self.factors) == self.value

    @property
    def support(self) -> tuple[int, ...]:
        """Columns of the parties that the combined sums contain."""
        return tuple(column for column, entry in enumerate(self.value) if entry)


@dataclass(frozen=True, slots=True)
class LinearWitness:
    """One integer per party; adding any multiple of them to the updates changes no opened sum."""

    values: tuple[int, ...]

    def holds(self, ledger: LeakageLedger) -> bool:
        """Return True if ``A @ values == 0``, over the integers."""
        if len(self.values) != len(ledger.parties):
            return False
        return all(sums.exact_sum(self.values[column] for column in row) == 0 for row in ledger.openings)


@dataclass(frozen=True, slots=True)
class Decision:
    """Proofs for all parties: a combination for each exposed party, one witness for all others."""

    exposed: Mapping[PartyId, Combination]
    witness: LinearWitness | None
    """Nonzero for every party that is not exposed; None if all are exposed."""


def decide(ledger: LeakageLedger) -> Decision:
    """Return the exposed parties, with proofs for exposed and unexposed ones.

    If the ledger's prime misleads, others are tried; several misleading ones (practically impossible) are a
    UsageError.
    """
    for attempt in range(_TRIES):
        other = ledger if not attempt else ledger.modulo(prime_from(f"{ledger.prime} {attempt}".encode()))
        exposed, witness = prove_exposed(other), find_witness(other)
        if None not in exposed.values() and (witness is not None or len(exposed) == len(other.parties)):
            return Decision({party: proof for party, proof in exposed.items() if proof}, witness)
    raise UsageError(
        f"cannot prove each party exposed or hidden: {_TRIES} primes gave no proof: a bug in securefl"
    )


def find_witness(ledger: LeakageLedger) -> LinearWitness | None:
    """Return a witness that is nonzero for all unexposed parties, checked exactly.

    Random combinations of the null space are tried (an entry vanishes with probability below 1 / (64 N)).
    None if all parties are exposed, or the prime misleads.
    """
    whole = ledger.echelon.settled
    free, pivots = list(whole.free), list(whole.pivots)
    if not free:
        return None
    square = ledger.matrix[list(ledger.independent)]
    exposed = set(whole.units)
    for attempt in range(_TRIES):
        chosen = _small(f"{ledger.prime} witness {attempt}".encode(), len(free), 64 * whole.width)
        right = -(square[:, free] @ chosen)[:, None]
        (solution,) = solve(square[:, pivots], right, ledger.prime)
        values = [0] * whole.width
        for column, entry in zip(free, chosen.tolist(), strict=True):
            values[column] = entry * solution.denominator
        for column, entry in zip(pivots, solution.numerators, strict=True):
            values[column] = entry
        divisor = math.gcd(*values)
        witness = LinearWitness(tuple(entry // divisor for entry in values))
        if witness.holds(ledger) and all(
            entry for column, entry in enumerate(witness.values) if column not in exposed
        ):
            return witness
    return None


def prove_exposed(
    ledger: LeakageLedger, parties: Collection[PartyId] | None = None
) -> dict[PartyId, Combination | None]:
    """Return for each exposed party a combination equal to a multiple of its unit vector, checked exactly.

    None stands for a coincidence of the prime. ``parties`` are those to prove, default all; an unexposed one
    is a UsageError.
    """
    wanted = sorted(ledger.exposed if parties is None else parties)
    if not ledger.exposed.issuperset(wanted):
        raise UsageError(
            "parties must be exposed in the ledger, found one that is not; prove exposed parties only"
        )
    columns = [ledger.parties.index(party) for party in wanted]
    proofs = _combinations(ledger, ledger.echelon.settled.pivots, columns, ledger.independent)
    return {
        party: proof if proof.holds(ledger) and proof.support == (column,) else None
        for party, column, proof in zip(wanted, columns, proofs, strict=True)
    }


def prove_support(ledger: LeakageLedger, columns: Collection[int]) -> Combination | None:
    """Return a nonzero combination that contains no party outside ``columns``, checked exactly; or None."""
    inside = sorted(set(columns))
    outside = [column for column in range(len(ledger.parties)) if column not in set(inside)]
    order, matrix = np.array(outside + inside), ledger.matrix
    echelon, independent = Echelon.empty(ledger.prime, len(order)), []
    for number in ledger.independent:
        grown = echelon.append(matrix[number][order])
        if grown is not echelon:
            independent.append(number)
        echelon = grown
    # With outside columns first, a reduced row has its pivot inside only if it is 0 outside.
    pivots = [int(order[pivot]) for pivot in echelon.settled.pivots]
    for pivot in (pivot for pivot in pivots if pivot in set(inside)):
        (proof,) = _combinations(ledger, pivots, [pivot], independent)
        if proof.holds(ledger) and set(proof.support) <= set(inside):
            return proof
    return None


def _combinations(
    ledger: LeakageLedger, pivots: Collection[int], columns: list[int], independent: Collection[int]
) -> list[Combination]:
    """Return for each of ``columns``, all pivots, the combination positive there and 0 at other pivots."""
    places = list(pivots)
    right = np.zeros((len(places), len(columns)), np.int64)
    right[[places.index(column) for column in columns], range(len(columns))] = 1
    return _solve_combinations(ledger, places, right, independent)


def _solve_combinations(
    ledger: LeakageLedger, pivots: Collection[int], right: I64, independent: Collection[int]
) -> list[Combination]:
    """Return combinations whose values at ``pivots`` are multiples of the columns of ``right``."""
    if not right.size:
        return []
    square = ledger.matrix[list(independent)][:, list(pivots)]
    proofs = []
    for solution in solve(np.ascontiguousarray(square.T), right, ledger.prime):
        factors = [0] * len(ledger.openings)
        for number, factor in zip(independent, solution.numerators, strict=True):
            factors[number] = factor
        proofs.append(Combination(tuple(factors), _combine_columns(ledger, factors)))
    return proofs


def _combine_columns(ledger: LeakageLedger, factors: Collection[int]) -> tuple[int, ...]:
    value = [0] * len(ledger.parties)
    for factor, row in zip(factors, ledger.openings, strict=True):
        if factor:
            for column in row:
                value[column] += factor
    return tuple(value)


def _small(seed: bytes, count: int, limit: int) -> I64:
    """Return ``count`` integers in [1, limit] derived from ``seed``."""
    raw = hashlib.shake_256(b"securefl/1/ledger witness" + seed).digest(8 * count)
    return (np.frombuffer(raw, dtype="<u8") % np.uint64(limit) + np.uint64(1)).astype(np.int64)
