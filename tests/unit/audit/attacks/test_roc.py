"""ROC curves against scikit-learn, another implementation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from securefl.base.errors import UsageError
from securefl.lab.privacy_attacks.roc import roc_of
from tests.tiers import examples


@settings(max_examples=examples(30))
@given(st.integers(0, 10_000), st.integers(2, 200), st.integers(1, 30))
def test_the_area_is_that_of_scikit_learn(seed: int, size: int, levels: int) -> None:
    generator = np.random.default_rng(seed)
    member = generator.random(size) < 0.5
    member[:2] = True, False
    scores = generator.integers(0, levels, size).astype(np.float64)
    curve = roc_of(scores, member)
    assert curve.area == pytest.approx(metrics.roc_auc_score(member, scores))
    assert (np.diff(curve.hits) >= 0).all()
    assert (np.diff(curve.false_alarms) >= 0).all()
    assert curve.hits[-1] == curve.false_alarms[-1] == 1


def test_hits_at_few_false_alarms() -> None:
    member = np.array([True] * 4 + [False] * 100)
    scores = np.concatenate([[9.0, 8.0, 3.0, -1.0], [5.0], np.zeros(99)])
    curve = roc_of(scores, member)
    assert curve.hits_at(0.0) == 0.5
    assert curve.hits_at(0.01) == 0.75
    interval = curve.interval_at(0.0)
    assert interval.low < 0.5 < interval.high


def test_what_has_no_curve_is_refused() -> None:
    with pytest.raises(UsageError, match="records of both kinds"):
        roc_of(np.zeros(3), np.ones(3, dtype=np.bool_))
    with pytest.raises(UsageError, match="found NaN"):
        roc_of(np.array([0.0, np.nan]), np.array([True, False]))
