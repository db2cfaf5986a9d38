from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from securefl.base.arrays import I64
from securefl.base.errors import UsageError
from securefl.methods.leakage.echelon import Echelon
from tests.unit.clustering.leakage.oracle import PRIME


def naive(rows: I64, prime: int) -> dict[int, list[int]]:
    """Reduced rows by pivot, on Python integers."""
    reduced: dict[int, list[int]] = {}
    for row in rows.tolist():
        rest = list(row)
        for pivot, other in reduced.items():
            rest = [(x - rest[pivot] * y) % prime for x, y in zip(rest, other, strict=True)]
        place = next((k for k, x in enumerate(rest) if x), None)
        if place is None:
            continue
        scale = pow(rest[place], -1, prime)
        rest = [x * scale % prime for x in rest]
        for pivot, other in reduced.items():
            factor = other[place]
            reduced[pivot] = [(x - factor * y) % prime for x, y in zip(other, rest, strict=True)]
        reduced[place] = rest
    return reduced


@pytest.mark.parametrize(("high", "count"), [(2, 70), (PRIME, 40), (3, 100)])
def test_elimination_row_by_row_is_the_naive_one(high: int, count: int) -> None:
    rows = np.random.default_rng(high % 97).integers(0, high, (count, 80))
    rows[count // 2] = rows[0]  # a row that depends on others
    echelon = Echelon.empty(PRIME, 80)
    for number, row in enumerate(rows):
        grown = echelon.append(row)
        assert (grown is echelon) == (grown.rank == echelon.rank)
        echelon = grown
        if number in (20, 31, 32, 33, count - 1):
            expected = naive(rows[: number + 1], PRIME)
            whole = echelon.settled
            assert whole.rank == len(expected) == echelon.rank
            found = dict(zip(whole.pivots, whole.basis.tolist(), strict=True))
            assert found == expected
            units = [k for k, row_ in expected.items() if sum(map(bool, row_)) == 1]
            assert list(echelon.units) == sorted(units)


def test_the_earlier_value_stays_as_it_was() -> None:
    rows = np.random.default_rng(1).integers(0, 2, (80, 60))
    values = [Echelon.empty(PRIME, 60)]
    for row in rows:
        values.append(values[-1].append(row))
    copies = [(value.basis.copy(), value.fresh.copy()) for value in values]
    _ = [value.settled.units for value in values]
    assert all(
        (value.basis == basis).all() and (value.fresh == fresh).all()
        for value, (basis, fresh) in zip(values, copies, strict=True)
    )


def test_the_null_space_is_orthogonal_to_the_rows() -> None:
    rows = np.random.default_rng(2).integers(0, 2, (20, 50))
    echelon = Echelon.empty(PRIME, 50)
    for row in rows:
        echelon = echelon.append(row)
    image = echelon.kernel_image(np.eye(50 - echelon.rank, dtype=np.int64))
    assert not (rows.astype(object) @ image.astype(object) % PRIME).any()


def test_a_row_must_fit() -> None:
    doubles: Any = np.ones(3)
    for row in (np.ones(4, np.int64), doubles):
        with pytest.raises(UsageError, match="must be an int64 vector"):
            Echelon.empty(PRIME, 3).append(row)
