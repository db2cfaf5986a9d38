from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy.table import (
    added_delta,
    check_distance,
    noise_table,
    summed_distance,
)
from tests.looped import looped


def test_the_distance_adds_up_over_draws() -> None:
    table = noise_table("skellam", 64.0)
    assert summed_distance(table, 0) == 0
    assert summed_distance(table, 25_450 * 1500) == 25_450 * 1500 * table.table_error


def test_below_a_hundredth_of_delta_or_refused() -> None:
    table = noise_table("skellam", 4096.0)
    delta = 1e-5
    most = math.ceil(Fraction(delta) / 100 / table.table_error) - 1
    assert check_distance(table, most, delta) < Fraction(delta) / 100
    with pytest.raises(ConfigError, match="delta / 100") as caught:
        check_distance(table, most + 1, delta, "privacy.target_delta")
    assert caught.value.path == "privacy.target_delta"
    assert "coarser scale" in caught.value.remedy
    assert "\n" not in str(caught.value)


def test_no_run_of_any_size_comes_near_the_limit() -> None:
    """d = 25,450 and T = 1500 at delta = 3000^-1.1; a hundred parties, d = 10^8 and T = 10^5 at 1e-10."""
    for std in (4.0, 4096.0):
        check_distance(noise_table("discrete-gaussian", std), 25_450 * 1500, 3000**-1.1)
        check_distance(noise_table("discrete-gaussian", std), 100 * 10**8 * 10**5, 1e-10)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_refuses_what_is_no_delta(delta: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        check_distance(noise_table("skellam", 4.0), 1, delta)


def test_refuses_a_negative_number_of_draws() -> None:
    with pytest.raises(UsageError, match="draws"):
        summed_distance(noise_table("skellam", 4.0), -1)


def hockey_stick(p: F64, q: F64, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def test_added_delta_covers_laws_at_that_distance() -> None:
    """Move a mass of tau where it hurts in both laws of a discrete Gaussian shifted by one step."""
    ks = np.arange(-40, 41)
    law = np.exp(-(ks**2) / 32.0)
    p, q = law / law.sum(), np.roll(law, 1) / law.sum()
    epsilon, tau = 0.5, 1e-4
    delta = hockey_stick(p, q, epsilon)
    worse_p, worse_q = p.copy(), q.copy()
    lost, won = int(np.argmax(p)) + 2, int(np.argmax(p - 2 * q))
    worse_p[lost] -= tau
    worse_p[won] += tau
    worse_q[won] -= tau
    worse_q[lost] += tau
    after = hockey_stick(worse_p, worse_q, epsilon)
    assert delta + 2 * tau < after <= delta + added_delta(Fraction(tau), epsilon) + 1e-15


def test_added_delta_grows_with_epsilon() -> None:
    """A hundredth of delta is no hundredth at a large epsilon: 8 % at 2, thirty times delta at 8."""
    tau = Fraction(1, 10**7)
    assert added_delta(tau, 0.0) == pytest.approx(2e-7)
    assert added_delta(tau, 2.0) / 1e-5 == pytest.approx(0.084, abs=1e-3)
    assert added_delta(tau, 8.0) / 1e-5 == pytest.approx(29.8, abs=0.1)
    assert added_delta(tau, 1e6) == math.inf
    assert added_delta(Fraction(0), math.inf) == 0
    for bad in (-0.1, math.nan):
        with pytest.raises(UsageError, match="epsilon"):
            added_delta(tau, bad)


def gaussian_sum_divergence(std: float, parties: int) -> float:
    """Bound on the max-divergence between a sum of discrete Gaussians and one of equal variance.

    Kairouz et al. 2021 (arXiv 2102.06387), tau of theorem 1, for one coordinate.
    """
    return 10 * sum(math.exp(-2 * (math.pi * std) ** 2 * k / (k + 1)) for k in range(1, parties))


@looped("parties, std", product([1, 2, 3, 5], [0.5, 0.7, 0.9]))
def test_sums_of_discrete_gaussians_stay_within_the_bound(std: float, parties: int) -> None:
    """Against the convolution, where the bound is still visible in floats; only where both laws are."""
    ks = np.arange(-60, 61)
    law = np.exp(-(ks**2) / (2 * std**2))
    law /= law.sum()
    total = law
    for _ in range(parties - 1):
        total = np.convolve(total, law, mode="same")
    near = np.abs(ks) <= 4 * std
    whole = np.exp(-(ks**2) / (2 * parties * std**2))
    whole /= whole.sum()
    found = float(np.abs(np.log(total[near] / whole[near])).max())
    assert found <= gaussian_sum_divergence(std, parties) + 1e-12
    assert parties == 1 or found > 0.001 * gaussian_sum_divergence(std, parties)


def test_from_four_steps_on_the_divergence_of_sums_is_nothing() -> None:
    assert 0 < gaussian_sum_divergence(4.0, 100) < 100 * 1e-67
