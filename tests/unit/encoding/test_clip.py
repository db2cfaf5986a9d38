from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from securefl.base.errors import UsageError
from securefl.methods.encoding.fixed_point import clip_l2

REALS = st.floats(-1e300, 1e300, allow_subnormal=True)


def test_no_bound_leaves_the_update_unchanged() -> None:
    update = np.array([3.0, -4e200])
    assert clip_l2(update, None) is update


def test_an_update_inside_the_ball_keeps_its_bits() -> None:
    update = np.array([3.0, 4.0])
    np.testing.assert_array_equal(clip_l2(update, 5.0), [3.0, 4.0])


def test_an_update_outside_is_scaled_to_the_bound() -> None:
    update = np.array([3.0, -4.0])
    clipped = clip_l2(update, 1.0)
    np.testing.assert_allclose(clipped, [0.6, -0.8], rtol=1e-15)
    np.testing.assert_array_equal(update, [3.0, -4.0])


@pytest.mark.parametrize("excess", [1e-9, 1e-3, 0.01, 0.5])
def test_an_update_a_little_too_long_is_clipped(excess: float) -> None:
    clipped = clip_l2(np.array([3.0, -4.0]) * (1 + excess), 5.0)
    np.testing.assert_allclose(clipped, [3.0, -4.0], rtol=1e-14)


@settings(deadline=None)
@given(arrays(np.float64, st.integers(1, 20), elements=REALS), st.floats(1e-6, 1e6))
def test_norm_is_bounded_and_direction_kept(update: np.ndarray, bound: float) -> None:
    clipped = clip_l2(update, bound)
    assert math.hypot(*clipped) <= bound * (1 + 1e-13)
    norm = math.hypot(*update)
    if norm <= bound * (1 - 1e-13):
        np.testing.assert_array_equal(clipped, update)
    elif math.isfinite(norm):
        expected = [bound * (x / norm) for x in update]
        np.testing.assert_allclose(clipped, expected, rtol=1e-12, atol=bound * 1e-300)


@pytest.mark.parametrize("size", [1e308, 1e-320])
def test_squares_that_overflow_or_underflow(size: float) -> None:
    clipped = clip_l2(np.full(4, size), size / 1e3)
    np.testing.assert_allclose(clipped, np.full(4, size / 2e3), rtol=1e-2, atol=5e-324)


def test_empty_and_zero_updates() -> None:
    assert clip_l2(np.zeros(0), 1.0).shape == (0,)
    np.testing.assert_array_equal(clip_l2(np.zeros(3), 1.0), np.zeros(3))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("bound", [None, 1.0])
def test_refuses_a_coordinate_that_is_not_finite(bad: float, bound: float | None) -> None:
    with pytest.raises(UsageError, match="not finite"):
        clip_l2(np.array([1.0, bad]), bound)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf])
def test_refuses_a_bad_bound(bound: float) -> None:
    with pytest.raises(UsageError, match="bound"):
        clip_l2(np.ones(2), bound)


def test_refuses_wrong_dtype_and_shape() -> None:
    with pytest.raises(UsageError, match="dtype"):
        clip_l2(np.ones(2, dtype=np.float32), 1.0)
    with pytest.raises(UsageError, match="shape"):
        clip_l2(np.ones((2, 2)), 1.0)
