"""The norm test's numbers: closed forms at corners, and what cannot be had."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, chi2

from securefl.base.errors import UsageError
from securefl.methods.privacy.norm_check import (
    ATTACK_FACTOR,
    HONEST_SHARE,
    LONGEST,
    acceptance_bound,
    accepted_at,
    norm_test,
)

TEST = norm_test(65_536, 64, 1e-3)


def refusal_bound(relative: float, projections: int) -> float:
    """Chernoff's bound on P(sum > relative n |x|^2) of the module's docstring."""
    excess = 2 * relative - 1
    return math.exp(-projections * (excess - math.log1p(excess)) / 2) if excess > 0 else 1.0


def test_the_bounds_lie_above_both_extreme_directions() -> None:
    """Dense vectors have chi-squared sums, a single coordinate binomial ones; both known exactly."""
    for relative in np.linspace(0.02, 1.5, 75):
        dense = float(chi2.sf(2 * 64 * relative, 64))
        single = float(binom.sf(math.floor(64 * relative), 64, 0.5))
        assert max(dense, single) <= refusal_bound(float(relative), 64) * (1 + 1e-9)
        low = max(
            float(chi2.cdf(2 * 64 * relative, 64)), float(binom.cdf(math.floor(64 * relative), 64, 0.5))
        )
        assert low <= acceptance_bound(float(relative), 64) * (1 + 1e-9)


def test_both_errors_are_below_the_failure() -> None:
    relative = TEST.threshold / (64 * (HONEST_SHARE * 65_536) ** 2)
    assert refusal_bound(relative, 64) <= 1e-3 * (1 + 1e-6)
    assert accepted_at(TEST, ATTACK_FACTOR) <= 1e-3
    # As the docs state them.
    assert accepted_at(TEST, 2) == pytest.approx(2.2e-4, rel=0.05)
    assert accepted_at(TEST, 3) == pytest.approx(2.3e-7, rel=0.05)
    assert accepted_at(TEST, 10) < 1e-9


def test_acceptance_falls_with_length_and_ends_at_coin_tosses() -> None:
    bounds = [accepted_at(TEST, factor) for factor in (1, 1.2, 1.5, 2, 3, 5, 10)]
    assert bounds == sorted(bounds, reverse=True)
    assert acceptance_bound(0, 8) >= 2.0**-8


@pytest.mark.parametrize("norm", [1, 1000, 2**16, 2**18, 2**22])
def test_nothing_wraps(norm: int) -> None:
    test = norm_test(norm, 64, 1e-3)
    assert 64 * (1 << test.range_bits) ** 2 < 2**63
    assert LONGEST * 2 << test.range_bits <= 2**63
    assert 16 * norm <= 1 << test.range_bits
    assert test.threshold < 2**63


def test_what_cannot_be_had() -> None:
    with pytest.raises(UsageError, match="take more projections"):
        norm_test(65_536, 48, 1e-3)
    with pytest.raises(UsageError, match="fewer bits after the point"):
        norm_test(2**30, 64, 1e-3)
    with pytest.raises(UsageError, match="norm and projections must be"):
        norm_test(0, 64, 1e-3)


def test_on_plain_numbers() -> None:
    bound = 1 << TEST.range_bits
    root = math.isqrt(TEST.threshold)
    assert TEST.passes([0] * 63 + [root])
    assert not TEST.passes([0] * 63 + [root + 1])
    assert not TEST.passes([0] * 63 + [bound])
    assert not TEST.passes([0] * 63 + [-bound - 1])
