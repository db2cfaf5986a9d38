"""Exact proofs of what the ledger finds modulo a prime: sums that follow, ranks and coalitions."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from securefl.base.ids import PartyId
from securefl.methods.leakage.colluders import Coalitions
from securefl.methods.leakage.ledger import LeakageLedger
from securefl.methods.leakage.proofs import Combination, _solve_combinations, prove_support


def prove_sum(ledger: LeakageLedger, columns: Collection[int]) -> Combination | None:
    """A combination that is a multiple of the sum of ``columns`` alone, if there is one; checked exactly."""
    wanted = np.zeros(len(ledger.parties), np.int64)
    wanted[list(columns)] = 1
    pivots = ledger.echelon.settled.pivots
    for proof in _solve_combinations(ledger, pivots, wanted[list(pivots)][:, None], ledger.independent):
        if proof.holds(ledger) and set(proof.support) == set(columns) and len(set(proof.value) - {0}) == 1:
            return proof
    return None


def rank_is_proved(ledger: LeakageLedger) -> bool:
    """Whether the rank is that of the rationals: every opening is a combination of the independent ones.

    Independence needs no proof, as what is independent modulo a prime is so over the rationals. With the
    rank, all lower bounds of searches modulo the prime are proved: each integer vector of the row space,
    divided by its greatest common divisor, is in the row space modulo the prime and not 0 there.
    """
    others = sorted(set(range(len(ledger.openings))) - set(ledger.independent))
    matrix, pivots = ledger.matrix, list(ledger.echelon.settled.pivots)
    wanted = matrix[others]
    proofs = _solve_combinations(
        ledger, pivots, np.ascontiguousarray(wanted[:, pivots].T), ledger.independent
    )
    # An empty opening is the combination that takes nothing.
    return all(
        len(set(proof.value) - {0}) == int(row.any()) and proof.support == tuple(np.flatnonzero(row).tolist())
        for proof, row in zip(proofs, wanted, strict=bool(pivots))
    )


def prove_coalitions(ledger: LeakageLedger, answer: Coalitions) -> dict[PartyId, Combination | None]:
    """For each party a combination of the sums with it and at most its coalition inside, checked exactly.

    None where the prime misled.
    """
    proofs: dict[PartyId, Combination | None] = {}
    for party, support in answer.supports.items():
        proof = prove_support(ledger, [ledger.parties.index(member) for member in support])
        contains = proof is not None and ledger.parties.index(party) in proof.support
        proofs[party] = proof if contains else None
    return proofs
