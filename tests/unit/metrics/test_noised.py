"""Numbers of counts with noise: on average they are those of the counts without.

Each mean is over 400 draws of seeded noise, with an error below .02 at five standard deviations. Counts that
were brought to 0 before ratios moved the first number from .96 to .8.
"""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.methods.metrics.derived import numbers_of
from securefl.methods.metrics.metric_encoding import MetricWords, metric_words
from securefl.scenario.load import parse_scenario

DRAWS = 400
NOISE = 60.0
"""Standard deviation of each pooled word, samples. Classes have 3,000 samples, most bins have none."""


def words_of(metric: str) -> MetricWords:
    text = f"""
name = "noised"
parties = 300
[model]
type = "weights"
[clustering]
size = 4
atoms = 2
[evaluation]
metrics = [{{ name = "m", {metric} }}]
"""
    words = metric_words(parse_scenario(text), 64)
    assert words is not None
    return words


def mean_over_noise(words: MetricWords, read: F64, name: str, draws: int = DRAWS) -> float:
    rng = np.random.default_rng(7)
    noised = (read + rng.normal(0.0, NOISE, len(read)) for _ in range(draws))
    return float(np.mean([numbers_of(words, one)[name] for one in noised]))


def scores() -> F64:
    """Class 0 in the lowest bins, class 1 in the highest, with a tail of each."""
    negative, positive = np.zeros(20), np.zeros(20)
    negative[:3], positive[-3:] = (1500, 1000, 400), (400, 1000, 1500)
    negative[-2], positive[1] = 100, 100
    return np.concatenate(([6000.0], negative, positive))


def values() -> F64:
    counts = np.zeros(20)
    counts[4:7] = (800, 2000, 200)
    return np.concatenate(([3000.0], counts))


def table() -> F64:
    return np.array([6000.0, 2900, 100, 0, 50, 1900, 50, 0, 100, 900])


def column() -> F64:
    counts = np.zeros(20)
    counts[4:7] = (800, 2000, 200)
    return np.concatenate(([3000.0], [3000 * 0.26, 3000 * 0.07], counts))


@pytest.mark.parametrize(
    ("metric", "read", "name"),
    [
        ('kind = "histogram"', scores(), "m.auc"),
        ('kind = "histogram", classes = 1', values(), "m.median"),
        ('kind = "confusion", classes = 3', table(), "m.accuracy"),
        ('kind = "confusion", classes = 3', table(), "m.f1"),
        ('kind = "confusion", classes = 3', table(), "m.recall.1"),
        ('kind = "classes", classes = 4', np.array([3000.0, 0, 0, 300, 2700]), "m.3"),
        ('kind = "column"', column(), "m.mean"),
    ],
)
def test_noise_does_not_move_the_mean(metric: str, read: F64, name: str) -> None:
    words = words_of(metric)
    exact = numbers_of(words, read)[name]
    assert mean_over_noise(words, read, name) == pytest.approx(exact, abs=0.02)


def test_classes_that_are_never_found_move_the_mean_of_scores_no_further_than_ratios_do() -> None:
    """Scores of 0 are below it as often as above, with noise; brought to 0, they moved the mean by .028.

    A hundredth is what noise in the denominators moves it by; the error of the mean of 4,000 draws is .001.
    """
    words, read = (
        words_of('kind = "confusion", classes = 3'),
        np.array([5000.0, 3000, 0, 0, 1000, 0, 0, 1000, 0, 0]),
    )
    exact = numbers_of(words, read)["m.f1"]
    assert mean_over_noise(words, read, "m.f1", 4000) == pytest.approx(exact, abs=0.015)


@pytest.mark.parametrize("metric", ['kind = "histogram"', 'kind = "confusion"', 'kind = "classes"'])
def test_shares_stay_between_0_and_1(metric: str) -> None:
    words, rng = words_of(metric), np.random.default_rng(1)
    for _ in range(50):
        found = numbers_of(words, 10 + rng.normal(0.0, 30.0, words.length))
        assert all(0.0 <= value <= 1.0 for value in found.values())
