"""Deviations that numbers of metrics state, against the errors that drawn noise gives them.

300 sites with noise at party level; the true AUC is .959. Squared errors of 400 draws over the squared stated
deviation add up to a chi-squared variable of 400 degrees of freedom at most, if stated deviations are right
or too large. Each test fails with a chance of 10^-6 if they are right; the seed is fixed. It also fails if
more than twice the true deviation is stated: a rule would skip rounds that it could use.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2, norm

from securefl.base.arrays import F64
from securefl.methods.metrics import measure
from securefl.methods.metrics.derived import numbers_of
from securefl.methods.metrics.metric_encoding import MetricWords, metric_words
from securefl.methods.metrics.precision import precisions_of
from securefl.scenario.load import parse_scenario

SITES, SAMPLES, DRAWS, RATE = 300, 100, 400, 1e-6
TRUE_AUC = 0.959
TEXT = """
name = "noised"
parties = 300
[model]
type = "weights"
[clustering]
size = 30
[secure_sum]
threshold = 16
min_survivors = 16
[privacy]
unit = "party"
multiplier = 1.0
delta = 1e-5
[encoding]
clip = 1.0
range = 1.0
scale_bits = 8
[evaluation]
samples = 100
metrics = [
    { name = "scores", kind = "histogram" },
    { name = "table", kind = "confusion", classes = 3 },
    { name = "two", kind = "confusion" },
    { name = "value", kind = "histogram", classes = 1 },
    { name = "loss", kind = "mean", upper = 8, better = "lower" },
    { name = "rmse", kind = "mean", upper = 40, root = true, better = "lower" },
    { name = "number", kind = "sum", lower = -1, upper = 2 },
    { name = "outcome", kind = "classes", classes = 4 },
    { name = "age", kind = "column", lower = -3, upper = 9 },
]
"""


def words_of(noise: float) -> MetricWords:
    words = metric_words(parse_scenario(TEXT, (f"evaluation.noise={noise}",)), 64)
    assert words is not None
    return words


def pooled() -> F64:
    """The words of all sites without noise, in samples."""
    rng, whole, edges = np.random.default_rng(1), SITES * SAMPLES, np.linspace(0, 1, 21)
    apart = math.sqrt(2) * float(norm.ppf(TRUE_AUC))
    scores = [norm.cdf(rng.normal(0.5 * sign * apart, 1, whole // 2)) for sign in (-1, 1)]
    column = np.clip((rng.normal(2, 1.5, whole) + 3) / 12, 0, 1)
    return np.concatenate(
        (
            [whole],
            *(np.histogram(one, edges)[0] for one in scores),
            np.array([0.3, 0.02, 0.01, 0.03, 0.25, 0.05, 0.0, 0.04, 0.3]) * whole,
            np.array([0.6, 0.1, 0.05, 0.25]) * whole,
            np.histogram(np.clip(rng.normal(0.4, 0.1, whole), 0, 1), edges)[0],
            np.array([0.3, 0.12]) * whole,
            [0.25 * SAMPLES * SITES],
            np.array([0.5, 0.3, 0.15, 0.05]) * whole,
            [column.sum(), np.square(column).sum()],
            np.histogram(column, edges)[0],
        )
    ).astype(float)


def errors_and_deviations(noise: float) -> dict[str, tuple[F64, F64]]:
    """By name: errors of numbers by drawn noise, and the deviations that are stated with them."""
    words, read, rng = words_of(noise), pooled(), np.random.default_rng(7)
    exact = numbers_of(words, read)
    errors, stated = {name: list[float]() for name in exact}, {name: list[float]() for name in exact}
    for _ in range(DRAWS):
        noised = read + rng.normal(0.0, words.deviation(SITES), len(read))
        numbers = numbers_of(words, noised)
        precisions = precisions_of(words, noised, SITES, numbers)
        for name in exact.keys() & numbers.keys():
            errors[name].append(numbers[name] - exact[name])
            stated[name].append(precisions[name].deviation)
    return {name: (np.array(errors[name]), np.array(stated[name])) for name in exact}


FIRST_ORDER = (
    "scores.auc",
    "table.accuracy",
    "table.f1",
    "table.recall.0",
    "two.f1",
    "value.median",
    "loss",
    "rmse",
    "number",
    "outcome.0",
    "outcome.3",
    "age.mean",
    "age.q25",
    "age.median",
    "age.q75",
)


@pytest.fixture(scope="module")
def drawn() -> dict[str, tuple[F64, F64]]:
    return errors_and_deviations(0.05)


@pytest.mark.parametrize("name", FIRST_ORDER)
def test_stated_deviations_are_those_of_drawn_noise(name: str, drawn: dict[str, tuple[F64, F64]]) -> None:
    errors, stated = drawn[name]
    assert len(errors) == DRAWS
    real, mean = float(np.square(errors).sum()), float(np.square(stated).mean())
    assert real <= chi2.isf(RATE, DRAWS) * mean
    assert real >= chi2.isf(1 - RATE, DRAWS) * mean / 4


@pytest.mark.parametrize("noise", [0.1, 0.3, 1.0])
def test_deviations_are_not_too_small_in_much_noise(noise: float) -> None:
    """Without gaps: what is shown at all states at least the error that it has."""
    for name, (errors, stated) in errors_and_deviations(noise).items():
        if len(errors) >= DRAWS // 4 and not name.endswith((".missing", ".low", ".high", ".count")):
            most = chi2.isf(RATE, len(errors)) / len(errors)
            assert np.square(errors).mean() <= most * np.square(stated).mean(), name


def test_the_true_auc_is_within_four_deviations(drawn: dict[str, tuple[F64, F64]]) -> None:
    """With Gaussian errors one of 400 draws is beyond four deviations with a chance of 2.5 %."""
    errors, stated = drawn["scores.auc"]
    assert numbers_of(words_of(0.05), pooled())["scores.auc"] == pytest.approx(TRUE_AUC, abs=0.003)
    assert np.count_nonzero(np.abs(errors) > 4 * stated) <= 1


@pytest.mark.slow
def test_medians_over_clusters_state_at_least_their_deviation() -> None:
    """Of ten clusters of 30 sites that lie apart, and of one with few samples, whose numbers mean nothing."""
    words, rng = words_of(0.02), np.random.default_rng(3)
    shares = [0.1 - 0.005 * n for n in range(10)] + [0.01]
    exact = [pooled() * share for share in shares]

    def median(sums: list[F64]) -> dict[str, tuple[float, float]]:
        whole = [(n, np.rint(np.ldexp(one, words.scale)).astype(np.int64), 30) for n, one in enumerate(sums)]
        found, doubted = measure(words, whole, median=True)
        assert not doubted
        return {one.name: (one.value, one.deviation) for one in found}

    truth, noise = median(exact), words.deviation(30)
    drawn = [median([one + rng.normal(0.0, noise, len(one)) for one in exact]) for _ in range(DRAWS)]
    for name in ("scores.auc", "table.accuracy", "loss", "rmse"):
        errors = np.array([one[name][0] - truth[name][0] for one in drawn])
        stated = np.array([one[name][1] for one in drawn])
        assert np.square(errors).sum() <= chi2.isf(RATE, DRAWS) * np.square(stated).mean(), name
        assert np.median(stated) < 0.2, name


def test_without_noise_there_is_no_deviation() -> None:
    scenario = parse_scenario(TEXT, ("privacy={}", "encoding={}", "clustering.atoms=3"))
    words = metric_words(scenario, 64)
    assert words is not None
    numbers = numbers_of(words, pooled())
    for name, one in precisions_of(words, pooled(), SITES, numbers).items():
        assert one.deviation == 0, name
        assert 0 <= one.rounding < 0.7, name
