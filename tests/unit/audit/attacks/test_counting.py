"""Binomial laws and intervals against scipy, another implementation by other means."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from securefl.base.errors import UsageError
from securefl.lab.privacy_attacks.counting import clopper_pearson, probabilities
from tests.tiers import examples


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_certain_outcome(rate: float) -> None:
    law = probabilities(7, rate)
    assert law[int(7 * rate)] == 1
    assert law.sum() == 1


@settings(max_examples=examples(40))
@given(st.integers(1, 300), st.data(), st.sampled_from([0.8, 0.95, 0.999]))
def test_an_interval_is_that_of_the_beta_quantiles(
    trials: int, data: st.DataObject, confidence: float
) -> None:
    hits = data.draw(st.integers(0, trials))
    error = (1 - confidence) / 2
    low = stats.beta.ppf(error, hits, trials - hits + 1) if hits else 0.0
    high = stats.beta.isf(error, hits + 1, trials - hits) if hits < trials else 1.0
    found = clopper_pearson(hits, trials, confidence)
    assert found.low == pytest.approx(low, abs=1e-9)
    assert found.high == pytest.approx(high, abs=1e-9)


@pytest.mark.parametrize(
    ("hits", "trials", "confidence"), [(3, 2, 0.9), (-1, 2, 0.9), (0, 0, 0.9), (1, 2, 1.0)]
)
def test_what_is_no_count_is_refused(hits: int, trials: int, confidence: float) -> None:
    with pytest.raises(UsageError):
        clopper_pearson(hits, trials, confidence)


def test_what_is_no_rate_is_refused() -> None:
    with pytest.raises(UsageError):
        probabilities(3, 1.5)
