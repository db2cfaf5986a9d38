from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from securefl.base.errors import UsageError
from securefl.methods.privacy.checks.null import Null
from securefl.methods.privacy.checks.published import first_stage, ks_test, norm_test
from tests.unit.privacy.checks.sums import noise

FINE = Null("skellam", 4096.0, 1, 0.0)
"""As good as continuous: a step is 1/4096 of a standard deviation."""


def test_ks_against_scipy() -> None:
    for seed, std in ((1, 4096.0), (2, 4300.0), (3, 4096.0)):
        upload = noise(FINE, 2_000, seed).astype(np.float64) + 0.5
        found, other = ks_test(upload, std), stats.kstest(upload, stats.norm(scale=std).cdf)
        assert found.statistic == pytest.approx(other.statistic, abs=1e-12)
        if other.pvalue < 0.5:
            assert found.p_value == pytest.approx(other.pvalue, rel=0.05)


def test_the_distance_counts_every_coordinate_that_shares_a_value() -> None:
    for std in (4.0, 31.0):
        upload = noise(Null("skellam", std, 1, 0.0), 2_000, 5).astype(np.float64)
        assert np.unique(upload).size < 250
        # scipy sorts, and compares with the law on both sides of each coordinate, equal or not.
        other = stats.kstest(upload, stats.norm(scale=std).cdf)
        assert ks_test(upload, std).statistic == pytest.approx(other.statistic, abs=1e-12)


def test_the_ks_threshold_is_where_p_is_5_percent() -> None:
    for size in (100, 25_450):
        upload = noise(FINE, size, 4).astype(np.float64)
        exact = stats.kstwo.isf(0.05, size)
        assert ks_test(upload, 4096.0).threshold == pytest.approx(exact, rel=2e-3)


def test_the_interval_of_the_norm() -> None:
    dim = 800
    spread = math.sqrt(2 * dim)
    for off, ok in ((-3.01, False), (-2.99, True), (0.0, True), (2.99, True), (3.01, False)):
        upload = np.full(dim, 0.7 * math.sqrt((dim + off * spread) / dim))
        assert norm_test(upload, 0.7).ok is ok
    assert norm_test(upload, 0.7).false_alarm_rate == pytest.approx(0.0027, rel=1e-3)


def test_uploads_are_divided_by_the_batch_size_and_so_is_the_noise() -> None:
    """Algorithm 1 uploads (signal + noise) / b_c; algorithm 2, by the letter, tests it against sigma."""
    upload = noise(FINE, 2_000, 5).astype(np.float64) / 16
    assert first_stage(upload, 4096.0 / 16).ok
    assert not first_stage(upload, 4096.0).ok


def test_honest_noise_on_a_grid_of_a_twentieth_always_fails_ks() -> None:
    """At 0 the distribution function jumps by 0.02, so that the distance is 0.01 whatever is drawn."""
    null = Null("skellam", 4.0, 25, 0.0)  # a standard deviation of 20 steps
    for seed in range(10):
        upload = noise(null, 25_450, 100 + seed).astype(np.float64)
        assert not ks_test(upload, 20.0).ok


def test_an_unreported_dropout_of_five_always_fails_both() -> None:
    for seed in range(10):
        four = noise(Null("skellam", 512.0, 4, 0.0), 25_450, 200 + seed).astype(np.float64)
        assert not ks_test(four, 512 * math.sqrt(5)).ok
        assert not norm_test(four, 512 * math.sqrt(5)).ok


def test_sorted_noise_passes_and_takes_no_factorial() -> None:
    """Guideline 1: "any particular order ... incurs O(d!)". It takes a sort, along any direction."""
    own = noise(FINE, 25_450, 6)
    target = noise(FINE, 25_450, 7).astype(np.float64)
    upload = np.empty(25_450)
    upload[np.argsort(target)] = np.sort(own)
    honest = first_stage(own.astype(np.float64), 4096.0)
    assert first_stage(upload, 4096.0) == honest
    assert honest.ok
    cosine = float(upload @ target) / math.sqrt(float(upload @ upload) * float(target @ target))
    assert cosine > 0.999


def test_refusals() -> None:
    with pytest.raises(UsageError, match="at least 64 coordinates"):
        first_stage(np.zeros(63), 1.0)
    with pytest.raises(UsageError, match="dtype"):
        first_stage(np.zeros(64, np.int64), 1.0)
    for std in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(UsageError, match="std finite and positive"):
            first_stage(np.zeros(64), std)
    with pytest.raises(UsageError, match="finite"):
        first_stage(np.full(64, math.nan), 1.0)
