"""Integer noise against Gaussian noise of a slightly larger mu: no divergence of a shift may be larger."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.methods.privacy.laws import mu_slack
from tests.unit.privacy.oracles import exact_law, gaussian_delta


@functools.cache
def law(name: str, std: int) -> F64:
    """P(X = k) for k = -14 std ... 14 std, each with full relative precision."""
    half = np.array([float(mass) for mass in exact_law(name, std, 14 * std)])
    return np.concatenate([half[:0:-1], half])


def shifted(mass: F64, by: int) -> tuple[F64, F64]:
    at_zero, moved = np.zeros(len(mass) + by), np.zeros(len(mass) + by)
    at_zero[: len(mass)] = mass
    moved[by:] = mass
    return at_zero, moved


@pytest.mark.parametrize("name", ["skellam", "discrete-gaussian"])
@pytest.mark.parametrize("std", [4, 7, 11])
def test_hockey_stick_divergences_of_shifts_are_no_larger(name: str, std: int) -> None:
    """The law is symmetric, so that one direction is enough. Down to 1e-14."""
    mass = law(name, std)
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    for shift in (1, 2, 3, 5, 8, 13, 21, 34):
        at_zero, moved = shifted(mass, shift)
        mu = shift / std * (1 + mu_slack(std**2))
        for epsilon in np.linspace(0, 14, 57).tolist():
            found = float(np.maximum(moved - math.exp(epsilon) * at_zero, 0).sum())
            if found > 1e-12:
                assert found <= gaussian_delta(mu, epsilon) + 1e-15, (shift, epsilon)


def test_without_slack_they_are_larger() -> None:
    """So the test above can fail: one step less privacy at 4 steps shows in the fourth digit."""
    at_zero, moved = shifted(law("skellam", 4), 8)
    excess = [
        float(np.maximum(moved - math.exp(epsilon) * at_zero, 0).sum()) / gaussian_delta(2.0, epsilon)
        for epsilon in np.linspace(0, 8, 65).tolist()
    ]
    assert max(excess) > 1.0001


@pytest.mark.parametrize("std", [4, 10])
@pytest.mark.parametrize("order", [2, 3, 8, 32, 100])
def test_renyi_divergences_keep_to_the_published_bound_and_that_to_the_slack(std: int, order: int) -> None:
    mass = law("skellam", std)
    variance = std**2
    with np.errstate(divide="ignore"):
        for shift in (1, 3, 9):
            at_zero, moved = shifted(mass, shift)
            inside = (at_zero > 0) & (moved > 0)
            powers = order * np.log(moved[inside]) + (1 - order) * np.log(at_zero[inside])
            found = float(np.logaddexp.reduce(powers)) / (order - 1)
            published = order * shift**2 / (2 * variance)
            published += ((2 * order - 1) * shift**2 + 6 * shift) / (4 * variance**2)
            slack = order * (shift / std * (1 + mu_slack(variance))) ** 2 / 2
            assert found <= published <= slack


def test_no_bound_below_four_steps() -> None:
    for variance in (15.9, 0.0, -1.0, math.nan):
        with pytest.raises(UsageError):
            mu_slack(variance)
    assert mu_slack(64.0**2) < 5e-4
