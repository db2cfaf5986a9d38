from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from securefl.base.errors import UsageError
from securefl.methods.privacy.laws import PRECISION, NoiseLaw, weights
from tests.unit.privacy.oracles import exact_law, skellam_by_integral

LAWS: tuple[NoiseLaw, ...] = ("skellam", "discrete-gaussian")


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("std", [1, 4, 16])
def test_brackets_hold_the_true_weights_and_are_narrow(law: NoiseLaw, std: int) -> None:
    found = weights(law, float(std))
    true = exact_law(law, std, 6 * std)
    for k, probability in enumerate(true):
        weight = Fraction(probability) / Fraction(true[0])
        slack = Fraction(1, 10**50)  # of the oracle, in decimals
        assert Fraction(found.low[k], 2**PRECISION) <= weight + slack
        assert Fraction(found.high[k], 2**PRECISION) >= weight - slack
        assert 0 <= found.high[k] - found.low[k] < 2 ** (PRECISION - 160)


@pytest.mark.parametrize("std", [63.5, 1000.0, 4096.0])
def test_skellam_agrees_with_the_inversion_of_its_characteristic_function(std: float) -> None:
    found = weights("skellam", std)
    total = 2 * sum(found.low) - found.low[0]
    ks = np.array([0, 1, 2, int(std), int(2.5 * std), int(4 * std)], dtype=np.int64)
    true = skellam_by_integral(std, ks)
    for k, probability in zip(ks.tolist(), true.tolist(), strict=True):
        assert float(Fraction(found.low[k], total)) == pytest.approx(probability, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("std", [63.5, 4096.0])
def test_the_discrete_gaussian_is_the_density_at_integers_to_float_precision(std: float) -> None:
    """Poisson summation: the normaliser is s sqrt(2 pi) (1 + 2 exp(-2 pi^2 s^2) + ...)."""
    found = weights("discrete-gaussian", std)
    total = 2 * sum(found.low) - found.low[0]
    assert float(Fraction(total, 2**PRECISION)) == pytest.approx(std * math.sqrt(2 * math.pi), rel=1e-14)
    for k in (1, 17, int(3 * std)):
        assert float(Fraction(found.low[k], 2**PRECISION)) == pytest.approx(
            math.exp(-(k**2) / (2 * std**2)), rel=1e-13
        )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("std", [1.0, 4.0, 300.7])
def test_what_lies_beyond_is_negligible_and_bounded(law: NoiseLaw, std: float) -> None:
    found = weights(law, std)
    assert len(found.low) == math.ceil(14 * std) + 65
    assert 0 < found.beyond < sum(found.low) >> 130


def test_the_bound_of_what_lies_beyond_is_one() -> None:
    """Against the direct sum of the first 60 weights that were left out."""
    found = weights("discrete-gaussian", 4.0)
    end = len(found.low)
    rest = sum((Decimal(-k * k) / 32).exp() for k in range(end, end + 60))
    assert Fraction(found.beyond, 2**PRECISION) >= Fraction(rest)


@pytest.mark.parametrize("std", [0.99, 0.0, -4.0, math.inf, math.nan])
def test_refuses_a_standard_deviation_out_of_range(std: float) -> None:
    with pytest.raises(UsageError, match="standard deviation"):
        weights("skellam", std)
