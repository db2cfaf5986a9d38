from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from securefl.methods.privacy.checks.tails import (
    band_tail,
    band_width,
    gamma_tails,
    kolmogorov_tail,
    normal_tail,
    poisson_tail,
)
from tests.tiers import examples


@pytest.mark.parametrize("z", [-8.0, -1.0, 0.0, 1.5, 8.0, 30.0])
def test_normal_tail(z: float) -> None:
    assert normal_tail(z) == pytest.approx(special.ndtr(-z), rel=1e-12)


@pytest.mark.parametrize(("shape", "error"), [(32.0, 3e-4), (500.0, 3e-6), (12_725.0, 1e-7), (5e5, 1e-7)])
def test_gamma_tails_far_out_on_both_sides(shape: float, error: float) -> None:
    for z in np.linspace(-5.5, 8, 55):
        x = shape + z * math.sqrt(shape)
        below, above = gamma_tails(shape, x)
        assert below == pytest.approx(special.gammainc(shape, x), rel=error)
        assert above == pytest.approx(special.gammaincc(shape, x), rel=error)


def test_gamma_tails_are_smooth_at_the_mean_and_whole_below_0() -> None:
    shape = 100.0
    near = [gamma_tails(shape, shape * (1 + off))[1] for off in (-1.01e-5, -0.99e-5, 0, 0.99e-5, 1.01e-5)]
    assert near == sorted(near, reverse=True)
    assert near[0] - near[-1] < 1e-4
    assert gamma_tails(shape, 0.0) == (0.0, 1.0)
    assert gamma_tails(shape, -3.0) == (0.0, 1.0)


@pytest.mark.parametrize("mean", [0.01, 0.3, 1.0, 4.5, 30.0, 1_000.0, 200_000.0])
def test_poisson_tail_is_a_tight_bound(mean: float) -> None:
    for z in np.linspace(0, 9, 40):
        count = math.ceil(mean + 1 + z * math.sqrt(mean))
        true = float(stats.poisson.sf(count - 1, mean))
        found = poisson_tail(mean, count)
        assert found >= true * (1 - 1e-9)
        assert found <= (1.1 * true if true < 1e-3 else 1.0)


def test_poisson_tail_at_the_edges() -> None:
    assert poisson_tail(5.0, 5) == 1
    assert poisson_tail(0.0, 0) == 1
    assert poisson_tail(0.0, 1) == 0


@settings(max_examples=examples(30))
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0, 3))
def test_poisson_tail_bounds_unequal_events(chances: list[float], slack: float) -> None:
    """The exact law of the number of independent events, by convolution."""
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    mean = sum(chances) + slack
    for count in range(len(chances) + 1):
        assert poisson_tail(mean, count) >= float(law[count:].sum()) - 1e-12


def test_band_tail_and_its_inverse() -> None:
    for alpha in (0.3, 0.01, 1e-6):
        assert band_tail(band_width(alpha, 500), 500) == pytest.approx(alpha)
    assert band_tail(-0.1, 100) == 1
    assert band_tail(0.001, 100) == 1


@pytest.mark.parametrize(("size", "error"), [(100, 0.1), (1_000, 0.05), (25_450, 0.02)])
def test_kolmogorov_tail_against_the_exact_law(size: int, error: float) -> None:
    for x in np.linspace(0.83, 3.0, 8):
        distance = float(x) / math.sqrt(size)
        assert kolmogorov_tail(distance, size) == pytest.approx(stats.kstwo.sf(distance, size), rel=error)
    assert kolmogorov_tail(0.0, size) == 1
