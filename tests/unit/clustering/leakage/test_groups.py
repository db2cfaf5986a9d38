from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings

from securefl.base.errors import UsageError
from securefl.methods.leakage.ledger import LeakageLedger
from tests.tiers import examples
from tests.unit.clustering.leakage import oracle
from tests.unit.clustering.leakage.oracle import ledger_of, rows_of
from tests.unit.clustering.leakage.smallest_groups import smallest_group


@given(oracle.ledgers(most=7))
@settings(deadline=None, max_examples=examples(40))
def test_the_smallest_group_is_that_of_all_sets_one_after_the_other(ledger: LeakageLedger) -> None:
    below = len(ledger.parties) + 1
    expected = oracle.smallest_group(rows_of(ledger), below)
    found = smallest_group(ledger, below)
    assert (None if found is None else len(found.parties)) == expected
    if found is not None:
        assert found.proof.holds(ledger)
        assert tuple(ledger.parties[k] for k in found.proof.support) == found.parties
        assert len(set(found.proof.value) - {0}) == 1


def test_a_cluster_inside_another_leaves_the_rest_determined() -> None:
    found = smallest_group(ledger_of([range(8), range(5)], 9), 5)
    assert found is not None
    assert found.parties == ("p005", "p006", "p007")


def test_a_difference_of_two_updates_is_no_group() -> None:
    assert smallest_group(ledger_of([{0, 1, 2, 3, 4}, {0, 2, 3, 4, 5}], 6), 5) is None


def test_a_group_with_smaller_supports_inside_is_found() -> None:
    """x0 - x1 and x2 - x3 are known as well, and are no groups; the pair that the sums give is {0, 2}."""
    rows = [{0, 4, 5}, {1, 4, 5}, {2, 6, 7}, {3, 6, 7}, {0, 2, 8, 9}, {8, 9, 10}, {10}]
    ledger = ledger_of(rows, 11).without([oracle.names(11)[10]])
    expected = oracle.smallest_group(rows_of(ledger), 5)
    found = smallest_group(ledger, 5)
    assert found is not None
    assert len(found.parties) == expected == 2


@pytest.mark.parametrize("size", [2, 3, 4])
def test_nothing_below_an_atom_is_determined(size: int) -> None:
    blocks = [set(range(k, k + size)) for k in range(0, 5 * size, size)]
    ledger = ledger_of([one | two for one, two in itertools.combinations(blocks, 2)], 5 * size)
    assert smallest_group(ledger, size) is None
    found = smallest_group(ledger, size + 1)
    assert found is not None
    assert len(found.parties) == size


def test_a_search_beyond_the_budget_is_refused() -> None:
    with pytest.raises(UsageError, match="halves"):
        smallest_group(ledger_of([range(50)], 50), 12)
