from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from securefl.base.errors import UsageError
from securefl.methods.leakage.ledger import LeakageLedger
from securefl.methods.leakage.lifting import solve
from securefl.methods.leakage.proofs import (
    decide,
    find_witness,
    prove_exposed,
    prove_support,
)
from tests.tiers import examples
from tests.unit.clustering.leakage import oracle
from tests.unit.clustering.leakage.exact_proofs import prove_sum, rank_is_proved
from tests.unit.clustering.leakage.oracle import PRIME, drawn, ledger_of, names, rows_of


@given(oracle.ledgers(most=7))
@settings(deadline=None, max_examples=examples(40))
def test_everybody_is_decided_and_the_proofs_are_integers(ledger: LeakageLedger) -> None:
    """Checked here by plain matrix products over Python integers, not by the library's own check."""
    rows = np.array(rows_of(ledger), dtype=object)
    decision = decide(ledger)
    assert set(decision.exposed) == {ledger.parties[k] for k in oracle.exposed(rows_of(ledger))}
    for party, proof in decision.exposed.items():
        value = np.array(proof.factors, dtype=object) @ rows
        assert [k for k, entry in enumerate(value) if entry] == [ledger.parties.index(party)]
        assert tuple(value) == proof.value
    if decision.witness is None:
        assert len(decision.exposed) == len(ledger.parties)
    else:
        assert not (rows @ np.array(decision.witness.values, dtype=object)).any()
        hidden = {party for party, w in zip(ledger.parties, decision.witness.values, strict=True) if w}
        assert hidden == set(ledger.parties) - set(decision.exposed)


@pytest.mark.parametrize("reclusterings", [5, 6])
def test_proofs_of_a_hundred_parties(reclusterings: int) -> None:
    ledger = drawn(100, 5, reclusterings, seed=1)
    decision = decide(ledger)
    assert len(decision.exposed) == (100 if reclusterings == 6 else 0)
    assert all(proof.holds(ledger) for proof in decision.exposed.values())
    assert (decision.witness is None) == (reclusterings == 6)
    if decision.witness:
        assert decision.witness.holds(ledger)
        assert all(decision.witness.values)


def test_a_wrong_proof_does_not_hold() -> None:
    ledger = ledger_of([{0, 1}, {1, 2}, {0, 2}], 4)
    proof = prove_exposed(ledger)[names(1)[0]]
    assert proof is not None
    assert proof.holds(ledger)
    assert (proof.factors, proof.value) == ((1, -1, 1), (2, 0, 0, 0))
    assert not replace(proof, factors=(1, 1, 1)).holds(ledger)
    assert not replace(proof, factors=(1, -1)).holds(ledger)
    assert not replace(proof, factors=(0, 0, 0), value=(0, 0, 0, 0)).holds(ledger)
    witness = find_witness(ledger)
    assert witness is not None
    assert witness.values[:3] == (0, 0, 0)
    assert not replace(witness, values=(1, 0, 0, 0)).holds(ledger)
    assert not replace(witness, values=()).holds(ledger)


def test_nobody_opened_is_a_witness_of_everybody() -> None:
    ledger = ledger_of([], 3)
    decision = decide(ledger)
    assert not decision.exposed
    assert decision.witness is not None
    assert all(decision.witness.values)


def test_a_prime_that_misleads_is_found_out() -> None:
    """A determinant of zeros and ones that the prime divides: the residues say "must be exposed", wrongly."""
    ledger = ledger_of(*determinant(PRIME))
    assert len(ledger.exposed) < len(ledger.parties)
    assert len(ledger.modulo(2**61 - 1).exposed) == len(ledger.parties)
    decision = decide(ledger)
    assert len(decision.exposed) == len(ledger.parties)
    assert decision.witness is None


def test_the_rank_is_proved_or_found_wrong() -> None:
    assert rank_is_proved(drawn(40, 5, 5, seed=1))
    assert rank_is_proved(drawn(40, 5, 8, seed=1))
    assert rank_is_proved(ledger_of([], 2))
    assert rank_is_proved(ledger_of([{0}, {0}, {0, 1}], 2).without(names(1)))
    assert not rank_is_proved(ledger_of(*determinant(PRIME)))
    assert rank_is_proved(ledger_of(*determinant(PRIME)).modulo(2**61 - 1))


def determinant(number: int) -> tuple[list[set[int]], int]:
    """Rows of zeros and ones, regular over the rationals and singular modulo ``number``.

    Three columns per binary digit: x, and twice -x. The next x is 2 x, since it adds up to 0 with both -x.
    The last row says that the x of the digits 1 of ``number`` add up to 0: ``number`` times the first x.
    """
    rows: list[set[int]] = []
    plus, minus, twin = 0, 1, 2
    width = 3
    rows += [{plus, minus}, {plus, twin}]
    last: set[int] = {plus} if number & 1 else set()
    for bit in range(1, number.bit_length()):
        double, minus_double, twin_double = width, width + 1, width + 2
        width += 3
        rows += [{minus, twin, double}, {double, minus_double}, {double, twin_double}]
        plus, minus, twin = double, minus_double, twin_double
        if number >> bit & 1:
            last.add(plus)
    return [*rows, last], width


def test_a_support_is_proved_exactly_if_there_is_one() -> None:
    ledger = ledger_of([{0, 1, 2, 3}, {0, 1, 4}, {5, 6}], 7)
    proof = prove_support(ledger, [2, 3, 4])
    assert proof is not None
    assert proof.support == (2, 3, 4)
    assert proof.holds(ledger)
    assert prove_support(ledger, [2, 3]) is None
    assert prove_sum(ledger, [2, 3, 4]) is None
    pair = prove_sum(ledger, [5, 6])
    assert pair is not None
    assert pair.factors == (0, 0, 1)


def test_exposure_of_others_is_not_proved() -> None:
    with pytest.raises(UsageError, match="must be exposed"):
        prove_exposed(ledger_of([{0, 1}], 2), names(1))


@pytest.mark.parametrize("size", [1, 5, 20])
def test_rational_solutions_solve_the_system(size: int) -> None:
    generator = np.random.default_rng(size)
    matrix = np.triu(generator.integers(0, 2, (size, size)))[:, generator.permutation(size)]
    matrix = np.maximum(matrix, np.eye(size, dtype=np.int64)) if size == 1 else matrix
    while oracle.rank(matrix.tolist()) < size:
        matrix = generator.integers(0, 2, (size, size))
    right = generator.integers(-1000, 1000, (size, 3))
    for column, solution in enumerate(solve(matrix, right, PRIME)):
        x = [Fraction(numerator, solution.denominator) for numerator in solution.numerators]
        assert [sum(x[k] for k in range(size) if row[k]) for row in matrix.tolist()] == right[
            :, column
        ].tolist()


def test_a_singular_system_is_refused() -> None:
    with pytest.raises(UsageError, match="singular"):
        solve(np.ones((2, 2), np.int64), np.ones((2, 1), np.int64), PRIME)
    with pytest.raises(UsageError, match="must be square"):
        solve(np.ones((2, 2), np.int64), np.ones((3, 1), np.int64), PRIME)
