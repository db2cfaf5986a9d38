from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from securefl.errors import UsageError
from securefl.weighting.partial import partial_view, smallest_sample
from securefl.weighting.truncation import mwp, truncated

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
    kept = sorted(truncated(counts, cap))
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
    """k = 800, delta = 3/e^2: eps1 = sqrt(2/1600), of alpha = 0.1 there remain 51.7 of 800 values."""
    view = partial_view([10] * 60 + [2] * 740, 10, 0.1, 0.5, 3 / np.e**2)
    eps = np.sqrt(2 / 1600)
    assert view.largest == pytest.approx(10 + 10 * np.sqrt(2 / (2 * (800 * (0.1 - eps) + 1))))
    assert view.mean == pytest.approx(2.6 - 10 * eps)
    assert view.proportion == pytest.approx(0.1 * view.largest / view.mean)
    assert view.holds == (view.proportion <= 0.5)


def test_even_counts_pass_and_a_sample_that_says_nothing_does_not() -> None:
    assert partial_view([5] * 1000, 5, 0.1, 0.5, 0.05).holds
    lost = partial_view([1] * 999 + [1000], 1000, 0.1, 0.5, 0.05)
    assert lost.mean < 0
    assert lost.proportion == float("inf")
    assert not lost.holds


def test_few_counts_say_nothing() -> None:
    assert smallest_sample(0.1, 0.05) == 205
    with pytest.raises(UsageError, match="204 counts say nothing"):
        partial_view([5] * 204, 5, 0.1, 0.5, 0.05)
    assert partial_view([5] * 205, 5, 0.1, 0.9, 0.05).largest > 5
    for bad in ((0.5, 0.5, 0.05), (0.1, 1.0, 0.05), (0.1, 0.5, 1.0)):
        with pytest.raises(UsageError, match="out of range"):
            partial_view([5] * 500, 5, *bad)
