from __future__ import annotations

from fractions import Fraction
from math import comb, exp

import numpy as np
import pytest

from securefl.base.errors import UsageError
from securefl.methods.weighting.partial import partial_view, smallest_sample, values_averaged
from securefl.methods.weighting.truncation import mwp, truncate_counts

PARTIES = 2_000
COUNTS = {
    # Nearest to where the theorem could fail: the sample's largest values miss the boundary by chance.
    "a tenth have a hundred": [100] * 200 + [1] * 1_800,
    "a few more than a tenth": [100] * 260 + [1] * 1_740,
    "uniform": [1 + 3 * n for n in range(PARTIES)],
}


@pytest.mark.parametrize("name", COUNTS)
def test_coverage(name: str) -> None:
    """Each of its two bounds, and a bound said to hold, is wrong no more often than delta says.

    Of 300 samples at delta = 0.2 the number of wrong ones is binomial with mean 60 and deviation 7 at most:
    more than 90 come with a probability below 1e-4. Measured: none (docs/weighting.md).
    """
    counts, delta, samples = COUNTS[name], 0.2, 300
    alpha, cap = 0.1, max(COUNTS[name])
    kept = sorted(truncate_counts(counts, cap))
    true = mwp(kept, alpha)
    largest, mean = float(sum(kept[-200:]) / 200), float(Fraction(sum(kept), PARTIES))
    rng = np.random.default_rng(5)
    # The largest alpha* that the counts just do not keep.
    just_below = true - Fraction(1, 10**6)
    views = [
        partial_view(rng.choice(counts, 400).tolist(), cap, alpha, just_below, delta) for _ in range(samples)
    ]
    assert sum(view.holds for view in views) <= 90
    assert sum(view.largest < largest for view in views) <= 90
    assert sum(view.mean > mean for view in views) <= 90


def test_the_numbers_by_hand() -> None:
    """k = 800, delta = 3/e^2: eps1 = sqrt(2/1600), of alpha = 0.1 there remain x = 51.7 of 800 values."""
    view = partial_view([10] * 60 + [2] * 740, 10, 0.1, 0.5, 3 / np.e**2)
    eps = np.sqrt(2 / 1600)
    assert view.largest == pytest.approx(10 + 10 * np.sqrt(2 / (2 * 52)), rel=1e-12), "not x + 1"
    assert view.mean == pytest.approx(2.6 - 10 * eps)
    assert view.proportion == pytest.approx(0.1 * view.largest / view.mean)
    assert view.holds == (view.proportion <= 0.5)


@pytest.mark.parametrize("top", [19, 20, 21, 22])
def test_where_a_whole_number_of_draws_is_sure(top: int) -> None:
    """k = 400, delta = 3/e^2, alpha = 0.1: eps1 = 0.05 and x = 20, so that 21 values are averaged."""
    view = partial_view([10] * top + [2] * (400 - top), 10, 0.1, 0.5, 3 / np.e**2)
    found = min(top, 21)
    assert view.largest == pytest.approx((10 * found + 2 * (21 - found)) / 21 + 10 / np.sqrt(21), rel=1e-12)


def test_a_mean_of_the_whole_sample_and_one_of_a_single_value() -> None:
    assert [values_averaged(x) for x in (1e-12, 0.99, 1 - 1e-12, 1.0, 20 - 1e-12, 20.5)] == [
        1,
        1,
        2,
        2,
        21,
        21,
    ]


@pytest.mark.parametrize(
    ("k", "alpha", "x"), [(400, 0.1, 20), (400, 0.1, 20.5), (50, 0.5, 10), (50, 0.5, 0.99)]
)
def test_coverage_to_the_last_digit(k: int, alpha: float, x: float) -> None:
    """Where alpha of all have 100 and the others 1, how many of the sample have 100 says everything about it:
    what is wrong how often is a sum of binomial probabilities, and no sample is drawn."""
    third = exp(-2 * k * (alpha - x / k) ** 2)

    def odds(found: int) -> float:
        return comb(k, found) * alpha**found * (1 - alpha) ** (k - found)

    sure = values_averaged(x)
    assert sum(map(odds, range(sure))) <= third, "fewer draws than are averaged"
    wrong = sum(
        odds(found)
        for found in range(k + 1)
        if partial_view([100] * found + [1] * (k - found), 100, alpha, 0.99, 3 * third).largest < 100
    )
    assert wrong <= 2 * third


def test_even_counts_pass_and_a_sample_that_says_nothing_does_not() -> None:
    assert partial_view([5] * 1000, 5, 0.1, 0.5, 0.05).holds
    lost = partial_view([1] * 999 + [1000], 1000, 0.1, 0.5, 0.05)
    assert lost.mean < 0
    assert lost.proportion == float("inf")
    assert not lost.holds


def test_few_counts_say_nothing() -> None:
    assert smallest_sample(0.1, 0.05) == 205
    with pytest.raises(UsageError, match="at least 205 counts"):
        partial_view([5] * 204, 5, 0.1, 0.5, 0.05)
    assert partial_view([5] * 205, 5, 0.1, 0.9, 0.05).largest > 5
    for bad in ((0.5, 0.5, 0.05), (0.1, 1.0, 0.05), (0.1, 0.5, 1.0)):
        with pytest.raises(UsageError, match="must hold; found"):
            partial_view([5] * 500, 5, *bad)
