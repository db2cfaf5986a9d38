"""The best estimate of one update from sums, and likelihood ratios of canaries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.lab.privacy_attacks.openings import best_estimate, log_ratio
from securefl.methods.privacy.exposure import leverage
from tests.tiers import examples


@settings(max_examples=examples(40))
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_it_is_unbiased_and_as_noisy_as_leverage_says(seed: int, openings: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 2, (openings, 5))
    for party in range(5):
        found = best_estimate(rows, party)
        if found is None:
            assert not rows[:, party].any()
            continue
        combined = found.factors @ rows
        assert combined[party] == pytest.approx(1)
        assert combined @ combined == pytest.approx(1 / found.leverage)
        assert found.leverage == pytest.approx(leverage(rows, np.ones(5), party))


def test_a_difference_isolates() -> None:
    found = best_estimate(np.array([[1, 1, 1], [0, 1, 1]]), 0)
    assert found is not None
    assert found.factors == pytest.approx([1, -1])
    assert found.leverage == pytest.approx(1)


def test_a_ratio_is_that_of_densities() -> None:
    def density(x: float, mean: float) -> float:
        return float(np.exp(-((x - mean) ** 2) / (2 * 1.5**2)))

    for rate in (0.2, 1.0):
        for x in (-3.0, 0.4, 2.0):
            mixed = (1 - rate) * density(x, 0) + rate * density(x, 0.8)
            found = float(log_ratio(np.array([x]), 0.8, 1.5, rate)[0])
            assert found == pytest.approx(np.log(mixed / density(x, 0)))


def test_what_has_no_law_is_refused() -> None:
    with pytest.raises(UsageError):
        log_ratio(np.zeros(1), 1.0, 0.0, 0.5)
    with pytest.raises(UsageError):
        best_estimate(np.zeros((2, 3), dtype=np.int64), 3)
