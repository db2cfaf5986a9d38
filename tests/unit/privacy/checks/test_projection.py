from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.methods.privacy.checks.null import Null, sum_law
from securefl.methods.privacy.checks.projection import projection
from securefl.methods.privacy.checks.tails import normal_tail
from tests.tiers import examples
from tests.unit.privacy.checks.sums import noise

DIM = 100


def axis(length: float = 1.0) -> np.ndarray:
    reference = np.zeros(DIM)
    reference[4] = length
    return reference


@pytest.mark.parametrize("size", [0, 3, 10, 20, 40, 100])
def test_along_an_axis_it_bounds_the_law_of_one_coordinate(size: int) -> None:
    null = Null("skellam", 4.0, 1, 0.0)
    values = np.zeros(DIM, dtype=np.int64)
    values[4] = size
    true = sum_law(null).outside(size - 1) if size else 1.0
    found = projection(values, axis(), null, 0.01)
    assert found.statistic == size
    assert true <= found.p_value <= max(1.0 if size < 10 else 0.0, 20 * true, 1e-12)


def test_along_a_dense_direction_it_is_chernoffs_bound_for_a_normal() -> None:
    null = Null("skellam", 100.0, 1, 0.0)
    reference = np.where(np.arange(10_000) % 2, -1.0, 1.0)
    for z in (1.5, 3.0, 6.0):
        values = np.zeros(10_000, dtype=np.int64)
        values[0] = round(z * 100 * 100)
        p_value = projection(values, reference, null, 0.01).p_value
        assert p_value == pytest.approx(2 * math.exp(-z * z / 2), rel=1e-3)
        assert p_value > 2 * normal_tail(z)


def test_the_allowance_moves_the_threshold() -> None:
    values = np.zeros(DIM, dtype=np.int64)
    limits = [
        projection(values, axis(), Null("skellam", 4.0, 1, allowance), 1e-3).threshold
        for allowance in (0.0, 50.0)
    ]
    assert limits[1] - limits[0] == pytest.approx(50)
    values[4] = math.floor(limits[1])
    assert projection(values, axis(), Null("skellam", 4.0, 1, 50.0), 1e-3).ok
    values[4] = -math.ceil(limits[1] + 1e-6)
    assert not projection(values, axis(), Null("skellam", 4.0, 1, 50.0), 1e-3).ok


@settings(max_examples=examples(30))
@given(st.floats(1e-300, 1e300))
def test_the_length_of_the_reference_does_not_matter(length: float) -> None:
    null = Null("skellam", 4.0, 1, 3.0)
    values = noise(null, DIM, 1)
    one, other = (projection(values, axis(size), null, 0.01) for size in (1.0, length))
    assert other.p_value == pytest.approx(one.p_value)


def test_sorted_noise_is_seen_by_who_knows_its_direction() -> None:
    null = Null("skellam", 64.0, 5, 5 * 64.0)
    target = noise(null, 2_000, 2).astype(np.float64)
    own = np.empty(2_000, dtype=np.int64)
    own[np.argsort(target)] = np.sort(noise(Null("skellam", 64.0, 1, 0.0), 2_000, 3))
    values = noise(Null("skellam", 64.0, 4, 0.0), 2_000, 4) + own
    assert not projection(values, target, null, 1e-6).ok
    unrelated = noise(null, 2_000, 5).astype(np.float64)
    assert projection(values, unrelated, null, 1e-6).ok


@pytest.mark.parametrize("bad", [np.zeros(DIM), np.full(DIM, math.nan), np.full(DIM, math.inf)])
def test_refuses_what_is_no_direction(bad: np.ndarray) -> None:
    with pytest.raises(UsageError, match="direction"):
        projection(np.zeros(DIM, np.int64), bad, Null("skellam", 4.0, 1, 0.0), 0.01)


def test_refuses_another_length() -> None:
    with pytest.raises(UsageError, match="shape"):
        projection(np.zeros(DIM, np.int64), np.ones(DIM + 1), Null("skellam", 4.0, 1, 0.0), 0.01)
