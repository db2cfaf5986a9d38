from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from securefl.base.entropy import InsecureSeededEntropy, OsEntropy
from securefl.base.errors import UsageError
from securefl.methods.encoding.fixed_point import BLOCK, MAX_STEPS, FixedPoint

GRID = FixedPoint(scale_bits=16, range=256.0)


class ConstantKey:
    """Entropy that counts what is drawn from it."""

    insecure = True

    def __init__(self) -> None:
        self.drawn: list[int] = []

    def child(self, *labels: str | int) -> ConstantKey:
        return self

    def draw(self, size: int) -> bytes:
        self.drawn.append(size)
        return bytes(size)


def test_steps_is_the_exact_floor() -> None:
    assert FixedPoint(16, 256.0).steps == 1 << 24
    assert FixedPoint(0, 2.75).steps == 2
    assert FixedPoint(2, 2.75).steps == 11
    assert FixedPoint(40, 8191.0).steps == 8191 << 40


@settings(deadline=None)
@given(st.integers(0, 40), st.floats(1.0, 8191.0))
def test_steps_agrees_with_rational_arithmetic(scale_bits: int, limit: float) -> None:
    assert FixedPoint(scale_bits, limit).steps == math.floor(Fraction(limit) * 2**scale_bits)


@pytest.mark.parametrize("scale_bits", [-1, 41])
def test_refuses_bad_scale_bits(scale_bits: int) -> None:
    with pytest.raises(UsageError, match="scale_bits"):
        FixedPoint(scale_bits, 1.0)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, math.inf])
def test_refuses_a_bad_range(limit: float) -> None:
    with pytest.raises(UsageError, match="range"):
        FixedPoint(16, limit)


def test_refuses_a_range_of_no_step_or_of_more_than_a_float_holds() -> None:
    with pytest.raises(UsageError, match="steps"):
        FixedPoint(0, 0.5)
    with pytest.raises(UsageError, match="steps"):
        FixedPoint(40, 8192.0)
    assert FixedPoint(0, float(MAX_STEPS)).steps == MAX_STEPS


def test_rounding_is_unbiased() -> None:
    """A z-test for each of 201 fractions. Over seeds it errs less than once in 10^6 (this seed is fixed).

    With n draws the mean of a fraction p has the standard error sqrt(p(1-p)/n); 6.2 of them are exceeded with
    a probability below 1e-9 each for n p (1-p) as large as here. Rounding to nearest is off by 100 of them.
    """
    n = 20_000
    grid = FixedPoint(scale_bits=4, range=64.0)
    entropy = InsecureSeededEntropy(1)
    for index, y in enumerate(np.linspace(-2.0, 2.0, 201)):
        encoded = grid.encode(np.full(n, y / 16), entropy.child(index))
        p = y - math.floor(y)
        error = float(encoded.values.mean()) - y
        assert abs(error) <= 6.2 * math.sqrt(p * (1 - p) / n) + 1e-12, y


def test_rounding_of_neighbours_is_uncorrelated() -> None:
    """|r| * sqrt(n) > 6 has probability 2e-9 for independent coordinates."""
    n = 200_000
    up = GRID.encode(np.full(n, 0.5 / 2**16), InsecureSeededEntropy(2)).values.astype(np.float64)
    for lag in (1, 2, 1024, BLOCK):
        correlation = float(np.corrcoef(up[:-lag], up[lag:])[0, 1])
        assert abs(correlation) * math.sqrt(n - lag) < 6


@settings(deadline=None)
@given(
    arrays(np.float64, st.integers(0, 30), elements=st.floats(-256.0, 256.0)),
    st.integers(0, 2**32),
)
def test_error_is_below_one_step(values: np.ndarray, seed: int) -> None:
    encoded = GRID.encode(values, InsecureSeededEntropy(seed))
    assert encoded.saturated == 0
    for got, value in zip(encoded.values.tolist(), values.tolist(), strict=True):
        exact = Fraction(value) * 2**16
        assert abs(got - exact) < 1
        assert got in {math.floor(exact), math.ceil(exact)}


@settings(deadline=None)
@given(
    st.lists(st.integers(-MAX_STEPS, MAX_STEPS) | st.sampled_from([-MAX_STEPS, -1, 0, 1, MAX_STEPS])),
    st.integers(0, 2**32),
)
def test_multiples_of_the_unit_are_exact(steps: list[int], seed: int) -> None:
    grid = FixedPoint(20, MAX_STEPS / 2**20)
    values = np.array([k / 2**20 for k in steps], dtype=np.float64)
    encoded = grid.encode(values, InsecureSeededEntropy(seed))
    assert encoded.values.tolist() == steps
    np.testing.assert_array_equal(grid.decode(encoded.values, 1.0), values)


def test_tiny_fractions_stay_next_to_zero() -> None:
    values = np.array([5e-324, -5e-324, 1e-30, -1e-30])
    assert GRID.encode(values, InsecureSeededEntropy(3)).values.tolist() == [0, 0, 0, 0]


def test_saturates_at_both_ends_and_counts() -> None:
    grid = FixedPoint(scale_bits=2, range=2.8)
    values = np.array([2.75, -2.75, 2.76, -2.76, 1e308, -1.7e308, 0.0])
    encoded = grid.encode(values, InsecureSeededEntropy(4))
    assert encoded.values.tolist() == [11, -11, 11, -11, 11, -11, 0]
    assert encoded.saturated == 4


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_any_length_across_blocks(size: int) -> None:
    values = np.linspace(-300.0, 300.0, size)
    encoded = GRID.encode(values, InsecureSeededEntropy(5))
    clipped = np.clip(values, -256.0, 256.0)
    assert encoded.values.dtype == np.int64
    assert encoded.values.shape == (size,)
    assert np.all(np.abs(encoded.values - clipped * 2**16) < 1)
    assert encoded.saturated == np.count_nonzero(np.abs(values) > 256.0)


def test_same_seed_same_bits_and_other_seed_other_bits() -> None:
    values = np.linspace(-1.0, 1.0, 999)
    first = GRID.encode(values, InsecureSeededEntropy(6))
    np.testing.assert_array_equal(first.values, GRID.encode(values, InsecureSeededEntropy(6)).values)
    assert not np.array_equal(first.values, GRID.encode(values, InsecureSeededEntropy(7)).values)


def test_draws_one_full_length_key_and_leaves_the_input_alone() -> None:
    entropy = ConstantKey()
    values = np.array([0.1, 1e9])
    values.flags.writeable = False
    GRID.encode(values, entropy)
    assert entropy.drawn == [32]


def test_operating_system_entropy_differs_between_calls() -> None:
    values = np.full(500, 0.5 / 2**16)
    first, second = (GRID.encode(values, OsEntropy()).values for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_refuses_a_coordinate_that_is_not_finite(bad: float) -> None:
    with pytest.raises(UsageError, match="not finite"):
        GRID.encode(np.array([0.0, bad]), InsecureSeededEntropy(8))


def test_refuses_wrong_dtype_and_shape() -> None:
    entropy = InsecureSeededEntropy(9)
    with pytest.raises(UsageError, match="dtype"):
        GRID.encode(np.zeros(2, dtype=np.float32), entropy)
    with pytest.raises(UsageError, match="shape"):
        GRID.encode(np.zeros((2, 2)), entropy)
    with pytest.raises(UsageError, match="dtype"):
        GRID.decode(np.zeros(2), 1.0)  # type: ignore[arg-type]


def test_decode_divides_by_scale_and_weight() -> None:
    total = np.array([3 << 16, -(1 << 15), 0], dtype=np.int64)
    np.testing.assert_array_equal(GRID.decode(total, 1.5), [2.0, -1 / 3, 0.0])


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_decode_refuses_a_bad_weight(weight: float) -> None:
    with pytest.raises(UsageError, match="weight"):
        GRID.decode(np.zeros(1, dtype=np.int64), weight)
