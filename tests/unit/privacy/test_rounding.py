from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from securefl.base.arrays import F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.methods.encoding.fixed_point import FixedPoint, clip_l2
from securefl.methods.privacy.rounding import DEFAULT_BETA, BoundedRounding
from tests.tiers import examples


class SameKey:
    """Entropy that gives one key again and again: every try rounds alike."""

    insecure = True

    def __init__(self, byte: int) -> None:
        self.byte = byte
        self.calls = 0

    def child(self, *labels: str | int) -> SameKey:
        return self

    def draw(self, size: int) -> bytes:
        self.calls += 1
        return bytes([self.byte]) * size


def formula(c: float, d: int, beta: float) -> float:
    """The bound of Kairouz et al. 2021, theorem 1, with gamma = 1."""
    worst = c + math.sqrt(d)
    likely = c**2 + d / 4 + math.sqrt(2 * math.log(1 / beta)) * (c + math.sqrt(d) / 2)
    return min(worst, math.sqrt(likely))


@pytest.mark.parametrize(("c", "d"), [(0.3, 1), (1.0, 100), (256.0, 25_450), (5e6, 10**6), (1e9, 3)])
@pytest.mark.parametrize("beta", [1e-12, 0.1, DEFAULT_BETA, 0.75])
def test_the_bound_is_the_formula(c: float, d: int, beta: float) -> None:
    rounding = BoundedRounding(c, d, beta)
    assert math.isclose(rounding.squared, formula(c, d, beta) ** 2, rel_tol=1e-11, abs_tol=1)
    assert rounding.sensitivity**2 >= rounding.squared
    assert rounding.sensitivity == pytest.approx(math.sqrt(rounding.squared), rel=1e-15)


def test_known_bounds() -> None:
    """By hand, and what it saves: c = 256 steps at d = 25,450 grows by 5 % instead of 62 %."""
    assert BoundedRounding(3.0, 4, math.exp(-2)).squared == 18  # 9 + 1 + 2 (3 + 1), below (3 + 2)^2
    assert BoundedRounding(0.5, 4, math.exp(-32)).squared == 6  # (1/2 + 2)^2, below 1/4 + 1 + 8 (1/2 + 1)
    assert BoundedRounding(256.0, 25_450).sensitivity == pytest.approx(268.78, abs=0.02)
    assert BoundedRounding(256.0, 25_450, 1e-8).sensitivity == pytest.approx(271.91, abs=0.01)
    assert math.sqrt(25_450) + 256 == pytest.approx(415.53, abs=0.01)


@settings(deadline=None, max_examples=examples(60))
@given(
    arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e3, 1e3)),
    st.floats(0.01, 500.0),
    st.floats(1e-9, 0.75),
    st.integers(0, 2**32),
)
def test_a_rounded_vector_keeps_the_bound(values: F64, norm: float, beta: float, seed: int) -> None:
    clipped = clip_l2(values, norm)
    rounding = BoundedRounding(norm, values.size, beta)
    rounded = rounding.round(clipped, InsecureSeededEntropy(seed))
    assert rounded.dtype == np.int64
    assert sum(x * x for x in rounded.tolist()) <= rounding.squared
    assert np.linalg.norm(rounded.astype(np.float64)) <= rounding.sensitivity
    assert np.all(np.abs(rounded - clipped) < 1)


@pytest.mark.parametrize("byte", range(20))
def test_gives_up_after_bounded_tries_and_rounds_towards_zero(byte: int) -> None:
    """One coordinate in three is rounded up against all odds: with the same key again, so is every try."""
    rounding = BoundedRounding(0.6, 2, 0.75)
    values = np.array([0.42, -0.42])
    entropy = SameKey(byte)
    once = FixedPoint(0, 4.0).encode(values, entropy).values
    entropy.calls = 0
    rounded = rounding.round(values, entropy)
    assert rounding.squared == 1
    if np.square(once).sum() == 2:
        assert entropy.calls == rounding.tries == 155
        assert rounded.tolist() == [0, 0]
    else:
        assert entropy.calls == 1
        assert rounded.tolist() == once.tolist()


def test_giving_up_rounds_towards_zero_and_not_to_the_nearest() -> None:
    rounding, values, grid = BoundedRounding(0.671, 2, 0.75), np.array([0.6, -0.3]), FixedPoint(0, 4.0)
    assert rounding.squared == 1
    up = [byte for byte in range(60) if np.square(grid.encode(values, SameKey(byte)).values).sum() == 2]
    assert up
    assert all(rounding.round(values, SameKey(byte)).tolist() == [0, 0] for byte in up)


def test_some_of_these_keys_do_fail() -> None:
    grid = FixedPoint(0, 4.0)
    values = np.array([0.42, -0.42])
    failed = [byte for byte in range(20) if np.square(grid.encode(values, SameKey(byte)).values).sum() == 2]
    assert 0 < len(failed) < 20


def test_enough_tries_for_two_to_the_minus_64() -> None:
    for beta in (1e-30, 1e-9, DEFAULT_BETA, 0.75):
        tries = BoundedRounding(1.0, 5, beta).tries
        assert beta**tries <= 2.0**-64 * (1 + 1e-9)
        assert tries == 1 or beta ** (tries - 1) > 2.0**-64
    assert BoundedRounding(1.0, 5).tries == 89


@pytest.mark.parametrize("beta", [0.05, DEFAULT_BETA])
def test_one_rounding_exceeds_the_bound_no_more_often_than_beta(beta: float) -> None:
    """Every coordinate half a step. More than beta n + 3 sqrt(n) has probability exp(-18) (Hoeffding).

    Without the term d / 4 the bound would be exceeded in every fifth rounding.
    """
    n, d = 2000, 64
    values = np.full(d, 0.5)
    rounding = BoundedRounding(4.0, d, beta)
    grid, root = FixedPoint(0, 4.0), InsecureSeededEntropy(51)
    over = sum(
        int(np.square(grid.encode(values, root.child(i)).values).sum()) > rounding.squared for i in range(n)
    )
    assert over <= beta * n + 3 * math.sqrt(n)


def test_the_bias_is_within_its_bound() -> None:
    """||E[rounded] - x|| <= sqrt(d) beta / (1 - beta) = 6, and not zero: the condition bites here.

    With n = 2500 roundings the mean's error has norm sqrt(d / 4 / n) = 0.02; 0.15 is beyond 1e-9.
    """
    n, d = 2500, 4
    values = np.array([0.55, 0.55, 0.55, 0.3])
    rounding = BoundedRounding(1.0, d, 0.75)
    assert rounding.squared == 3
    root = InsecureSeededEntropy(52)
    mean = np.mean([rounding.round(values, root.child(i)) for i in range(n)], axis=0)
    # By enumeration: of all 16 roundings only (1, 1, 1, 1) is too long.
    corners = np.array([[i >> b & 1 for b in range(4)] for i in range(15)], dtype=np.float64)
    odds = np.prod(np.where(corners == 1, values, 1 - values), axis=1)
    expected = (odds / odds.sum()) @ corners
    assert np.linalg.norm(mean - expected) < 0.15
    assert 0.02 < np.linalg.norm(expected - values) < math.sqrt(d) * 0.75 / 0.25


def test_unbiased_where_the_condition_never_bites() -> None:
    """Tiny beta: the bound is the worst case and nothing is rejected. z-tests at 6 sigma, 2e-9 each."""
    n = 2000
    values = np.array([0.1, -0.25, 0.5, 0.9, -0.99])
    rounding = BoundedRounding(3.0, 5, 1e-300)
    root = InsecureSeededEntropy(53)
    mean = np.mean([rounding.round(values, root.child(i)) for i in range(n)], axis=0)
    fraction = values - np.floor(values)
    assert np.all(np.abs(mean - values) < 6 * np.sqrt(fraction * (1 - fraction) / n))


@settings(deadline=None, max_examples=examples(60))
@given(
    arrays(np.float64, 12, elements=st.floats(-50, 50)),
    arrays(np.float64, 12, elements=st.floats(-1, 1)),
    st.integers(0, 2**32),
)
def test_neighbours_rounded_with_the_same_offsets(values: F64, change: F64, seed: int) -> None:
    """Record-level: with the same offsets the roundings differ by a rounding of the difference."""
    grid = FixedPoint(0, 64.0)
    first = grid.encode(values, InsecureSeededEntropy(seed)).values
    second = grid.encode(values + change, InsecureSeededEntropy(seed)).values
    assert np.all(np.abs((second - first) - change) < 1 + 1e-9)


def test_the_difference_exceeds_its_bound_no_more_often_than_beta() -> None:
    """Unconditional, record-level: as above, for the difference of two roundings with the same offsets."""
    n, d, beta = 1000, 64, 0.05
    bound = BoundedRounding(4.0, d, beta).squared
    grid = FixedPoint(0, 64.0)
    base = np.linspace(-9.7, 11.3, d)
    over = 0
    for seed in range(n):
        first = grid.encode(base, InsecureSeededEntropy(seed)).values
        second = grid.encode(base + 0.5, InsecureSeededEntropy(seed)).values
        over += int(np.square(second - first).sum()) > bound
    assert over <= beta * n + 3 * math.sqrt(n)


def test_same_seed_same_bits_and_the_input_is_left_alone() -> None:
    values = clip_l2(np.linspace(-3.0, 3.0, 500), 20.0)
    values.flags.writeable = False
    rounding = BoundedRounding(20.0, 500)
    first, second = (rounding.round(values, InsecureSeededEntropy(54)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, rounding.round(values, InsecureSeededEntropy(55)))


@pytest.mark.parametrize(
    ("norm", "dim", "beta", "reason"),
    [
        (0.0, 5, 0.5, "norm"),
        (math.inf, 5, 0.5, "norm"),
        (math.nan, 5, 0.5, "norm"),
        (1.0, 0, 0.5, "dim of a vector"),
        (1.0, 5, 0.0, "beta"),
        (1.0, 5, 0.76, "beta"),
        (1.0, 5, math.nan, "beta"),
        (2.0**30, 5, 0.5, "must be at most"),
    ],
)
def test_refuses_bad_parameters(norm: float, dim: int, beta: float, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        BoundedRounding(norm, dim, beta)


def test_refuses_what_was_not_clipped_or_is_no_such_vector() -> None:
    rounding, entropy = BoundedRounding(5.0, 2), InsecureSeededEntropy(56)
    rounding.round(np.array([3.0, 4.0]), entropy)
    for bad in ([3.0, 4.001], [math.nan, 0.0], [math.inf, 0.0], [1e200, 1e200]):
        with pytest.raises(UsageError, match="clipped"):
            rounding.round(np.array(bad), entropy)
    with pytest.raises(UsageError, match="shape"):
        rounding.round(np.zeros(3), entropy)
    with pytest.raises(UsageError, match="dtype"):
        rounding.round(np.zeros(2, dtype=np.float32), entropy)
