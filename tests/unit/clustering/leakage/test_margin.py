from __future__ import annotations

import pytest

from securefl.base.errors import UsageError
from tests.unit.clustering.leakage.margins import margin
from tests.unit.clustering.leakage.oracle import drawn, ledger_of


@pytest.mark.parametrize(
    ("parties", "size", "expected"),
    [(100, 5, 6), (100, 10, 11), (100, 20, 25), (60, 3, 4), (40, 5, 6), (20, 4, 5)],
)
def test_r_star(parties: int, size: int, expected: int) -> None:
    left = margin(ledger_of([], parties), parties // size)
    assert (left.expected, left.dimensions, left.more) == (expected, parties, expected)


def test_what_is_left_shrinks_by_one_reclustering_after_the_other() -> None:
    lefts = [margin(drawn(100, 5, reclusterings, seed=1), 20) for reclusterings in range(1, 7)]
    assert [left.dimensions for left in lefts] == [80, 61, 42, 23, 4, 0]
    assert [left.more for left in lefts] == [5, 4, 3, 2, 1, 0]


def test_parties_that_no_sum_contains_are_no_margin() -> None:
    assert margin(ledger_of([{0, 1}, {1, 2}, {0, 2}], 9), 3).dimensions == 0


def test_one_cluster_has_no_margin() -> None:
    with pytest.raises(UsageError, match="1 clusters"):
        margin(ledger_of([{0, 1}], 2), 1)
