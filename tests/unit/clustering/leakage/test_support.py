from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings

from securefl.methods.leakage.ledger import LeakageLedger
from securefl.methods.leakage.support import least_support
from tests.tiers import examples
from tests.unit.clustering.leakage import oracle
from tests.unit.clustering.leakage.oracle import drawn, ledger_of, rows_of


@given(oracle.ledgers(most=7))
@settings(deadline=None, max_examples=examples(40))
def test_the_minimum_is_that_of_all_sets_one_after_the_other(ledger: LeakageLedger) -> None:
    found = least_support(ledger)
    assert found is not None
    assert found.exact
    assert len(found.parties) == oracle.minimum_support(rows_of(ledger))
    assert found.proof.holds(ledger)
    assert tuple(ledger.parties[k] for k in found.proof.support) == found.parties


def test_differences_of_sums_count() -> None:
    """Two clusters that differ in one member each: x1 - x5 is known, though no group below four is."""
    found = least_support(ledger_of([{0, 1, 2, 3, 4}, {0, 2, 3, 4, 5}], 6))
    assert found is not None
    assert found.parties == ("p001", "p005")
    assert sorted(found.proof.value) == [-1, 0, 0, 0, 0, 1]


def test_clusters_of_one_partition_are_the_minimum() -> None:
    found = least_support(ledger_of([range(6), range(6, 12)], 12))
    assert found is not None
    assert found.exact
    assert len(found.parties) == 6


def test_beyond_the_budget_it_is_an_upper_bound() -> None:
    ledger = ledger_of([range(30), range(30, 60)], 60)
    found = least_support(ledger, budget=0)
    assert found is not None
    assert (len(found.parties), found.at_least, found.exact) == (30, 5, False)
    assert found.proof.holds(ledger)


@pytest.mark.parametrize("size", [2, 3])
def test_atoms_keep_every_support_at_their_size(size: int) -> None:
    blocks = [set(range(k, k + size)) for k in range(0, 6 * size, size)]
    pairs = [one | two for one, two in itertools.combinations(blocks, 2)]
    found = least_support(ledger_of(pairs, 6 * size))
    assert found is not None
    assert found.exact
    assert len(found.parties) == size


def test_random_reclusterings_below_r_star() -> None:
    """(60, 3) at R = 3 has a kernel of dimension 2: no support needs to be above 3."""
    found = least_support(drawn(60, 3, 3, seed=1))
    assert found is not None
    assert found.exact
    assert 2 <= len(found.parties) <= 3


def test_without_sums_there_is_none() -> None:
    assert least_support(ledger_of([], 3)) is None
