"""From what a site says to integers in a sum, and back: bounds hold whatever it says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.methods.clustering import largest_cluster
from securefl.methods.metrics import MetricWords, metric_words, said_by
from securefl.methods.metrics.metric_encoding import MetricError, first_count, parts_of
from securefl.scenario import Scenario
from securefl.scenario.load import parse_scenario

BASE = """
name = "metrics"
parties = 8
[model]
type = "weights"
[clustering]
size = 4
atoms = 2
[encoding]
clip = 1
range = 1
[evaluation]
samples = 50
[[evaluation.metrics]]
name = "loss"
kind = "mean"
lower = -2
upper = 4
[[evaluation.metrics]]
name = "costs"
kind = "sum"
upper = 1000
[[evaluation.metrics]]
name = "scores"
kind = "histogram"
bins = 5
[[evaluation.metrics]]
name = "table"
kind = "confusion"
classes = 3
"""
NOISY = ("privacy={unit='party',placement='threshold',multiplier=1.5,delta=1e-5}", "evaluation.noise=2")
SAID: dict[str, Any] = {
    "loss": 1.25,
    "costs": 300.0,
    "scores": np.array([[3, 0, 0, 1, 0], [0, 1, 0, 0, 5]]),
    "table": np.diag([4, 3, 1]) + 0,
}


def scenario(*overrides: str) -> Scenario:
    return parse_scenario(BASE, overrides)


def words_of(*overrides: str) -> MetricWords:
    found = metric_words(scenario(*overrides), 32)
    assert found is not None
    return found


def test_without_metrics_there_are_no_words() -> None:
    assert metric_words(scenario("evaluation={}"), 32) is None
    assert scenario("evaluation={}").evaluation.words == 0
    assert scenario().evaluation.words == 1 + 1 + 1 + 10 + 9


def test_what_a_site_says_is_in_samples() -> None:
    said = said_by(scenario().evaluation, 10, SAID)
    assert said[0] == 10
    assert said[1] == pytest.approx(10 * 1.25 / 4)
    assert said[2] == pytest.approx(50 * 300 / 1000)
    assert said[3:13].tolist() == SAID["scores"].reshape(-1).tolist()
    assert said[13:].sum() == 8


def test_a_larger_site_counts_as_the_cap() -> None:
    said = said_by(scenario().evaluation, 200, SAID)
    assert said[0] == 50
    assert said[1] == pytest.approx(50 * 1.25 / 4)
    assert said[2] == pytest.approx(50 * 300 / 1000), "one number of a site is not of its samples"
    assert said[3:13].sum() == pytest.approx(10 / 4)


def test_numbers_outside_the_range_count_as_its_end() -> None:
    said = said_by(scenario().evaluation, 10, SAID | {"loss": 99.0, "costs": -5.0})
    assert said[1] == pytest.approx(10.0)
    assert said[2] == 0.0


@pytest.mark.parametrize(
    ("samples", "values", "complaint"),
    [
        (0, SAID, "evaluate tested on 0 samples, expected a whole number from 1"),
        (True, SAID, "evaluate tested on True samples"),
        (2.5, SAID, "evaluate tested on 2.5 samples"),
        (10, {}, "evaluate gave no metric loss, which the scenario declares; it gave no metrics$"),
        (10, {"los": 1.0, "f1": 1.0}, "evaluate gave no metric loss, .*; it gave f1, los$"),
        (10, SAID | {"loss": math.nan}, "evaluate returned a loss that is NaN or infinite"),
        (10, SAID | {"loss": "good"}, "evaluate gave loss = 'good', expected numbers"),
        (10, SAID | {"loss": [1.0, 2.0]}, r"evaluate gave loss of shape \(2,\), expected \(\)"),
        (10, SAID | {"scores": np.zeros(5)}, r"evaluate gave scores of shape \(5,\), expected \(2, 5\)"),
        (10, SAID | {"scores": -np.ones((2, 5))}, "evaluate counted -10 in scores"),
        (5, SAID, "evaluate counted 10 in scores, and tested on 5 samples"),
    ],
)
def test_what_cannot_be_counted_is_refused(
    samples: object, values: dict[str, object], complaint: str
) -> None:
    with pytest.raises(MetricError, match=f"^{complaint}"):
        said_by(scenario().evaluation, samples, values)


@given(st.lists(st.floats(width=64), min_size=22, max_size=22))
def test_no_site_moves_a_sum_by_more_than_its_share(said: list[float]) -> None:
    """What the noise is scaled to: sqrt(1 + metrics) times the cap, in steps, whatever a site says."""
    words = words_of(*NOISY)
    encoded = words.encode_values(np.array(said))
    cap = math.ldexp(50, words.scale)
    assert np.linalg.norm(encoded.astype(np.float64)) <= cap * math.sqrt(5) + 1e-6
    assert 0 <= encoded[0] <= cap
    for at in (slice(3, 13), slice(13, 22)):
        assert encoded[at].min() >= 0
        assert encoded[at].sum() <= encoded[0]


def test_sums_of_honest_sites_are_read_to_the_quantisation() -> None:
    words, rng = words_of(), np.random.default_rng(3)
    everybody = []
    for _ in range(7):
        samples = int(rng.integers(10, 50))
        counts = rng.multinomial(samples, [0.1] * 10).reshape(2, 5)
        everybody.append(
            said_by(
                words.evaluation,
                samples,
                {
                    "loss": rng.uniform(-2, 4),
                    "costs": rng.uniform(0, 1000),
                    "scores": counts,
                    "table": np.bincount(rng.integers(0, 9, samples), minlength=9).reshape(3, 3),
                },
            )
        )
    total = np.sum([words.encode_values(said) for said in everybody], axis=0)
    np.testing.assert_allclose(words.read(total), np.sum(everybody, axis=0), atol=7 * 2.0**-words.scale)
    assert words.doubt(words.read(total), 7) == ""


@pytest.mark.parametrize("ring_bits", [32, 64])
def test_no_sum_wraps(ring_bits: int) -> None:
    for overrides in ((), NOISY, ("evaluation.samples=1000000",)):
        words = metric_words(scenario(*overrides), ring_bits)
        assert words is not None
        most = math.ldexp(words.evaluation.samples, words.scale) + (words.table.largest if words.table else 0)
        assert 7 * most < 2 ** (ring_bits - 1)


def test_noise_does_not_wrap_a_sum_that_would_just_fit_without_it() -> None:
    made = scenario(NOISY[0], "evaluation.noise=1e-6", f"evaluation.samples={2**31 // 6 - 1}")
    words, members = metric_words(made, 32), largest_cluster(made)
    assert members == 6
    assert words is not None
    assert words.table is not None
    assert members * (math.ldexp(words.evaluation.samples, words.scale) + words.table.largest) < 2**31


def test_more_samples_than_a_ring_holds_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"evaluation.samples: \d+ members of 9000000000000000000 samples"):
        metric_words(scenario(f"evaluation.samples={9 * 10**18}"), 32)


def test_the_noise_of_a_sum_is_what_privacy_counts() -> None:
    """500 draws of 22 words: the standard deviation is within 4 of its own standard errors (6e-5)."""
    words = words_of(*NOISY)
    assert words.table is not None
    entropy = InsecureSeededEntropy(5).child("noise")
    drawn = np.concatenate([words.noise(entropy.child("of", n)) for n in range(500)])
    honest = scenario(*NOISY).secure_sum.min_survivors
    target = 1.5 * 2 * 50 * math.sqrt(5)
    std = float(np.std(drawn)) * 2.0**-words.scale * math.sqrt(honest)
    assert abs(std / target - 1) < 4 / math.sqrt(2 * drawn.size)
    assert not words_of().noise(entropy).any()


KINDS = {
    "mean": "{name='a',kind='mean',lower=-2,upper=4}",
    "sum": "{name='a',kind='sum',upper=3}",
    "histogram": "{name='a',kind='histogram',bins=4}",
    "confusion": "{name='a',kind='confusion',classes=3}",
    "classes": "{name='a',kind='classes',classes=3}",
    "column": "{name='a',kind='column',bins=4}",
}
"""A metric of each kind."""


def reached_by(words: MetricWords) -> float:
    """The L2 norm, in samples, of a site of the most samples: all in one bin, and each mean at its end."""
    said = np.zeros(words.length)
    said[0] = words.evaluation.samples
    for metric, at in parts_of(words.evaluation):
        said[at.start : at.start + first_count(metric) + 1] = words.evaluation.samples
    return float(np.linalg.norm(words.read(words.encode_values(said))))


@pytest.mark.parametrize("kinds", [*KINDS, "mean column", "column histogram classes"])
def test_the_noise_is_in_proportion_to_what_one_site_can_reach(kinds: str) -> None:
    metrics = [KINDS[kind].replace("'a'", f"'{kind}'") for kind in kinds.split()]
    declared = f"evaluation.metrics=[{','.join(metrics)}]"
    words, honest = words_of(*NOISY, declared), scenario(*NOISY).secure_sum.min_survivors
    noise, target = words.slack * math.sqrt(honest), 1.5 * 2 * reached_by(words_of(declared))
    assert noise == pytest.approx(target, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_site_that_says_too_much_is_cut_to_its_bound(kind: str) -> None:
    words = words_of(f"evaluation.metrics=[{KINDS[kind]}]")
    (metric,) = words.evaluation.metrics
    for value in (1e9, math.inf, -math.inf, math.nan):
        read = words.read(words.encode_values(np.full(words.length, value)))
        assert 0 <= read[0] <= 50
        assert np.linalg.norm(read) <= 50 * math.sqrt(1 + metric.blocks)


def test_rounding_adds_no_samples() -> None:
    words = words_of("evaluation.metrics=[{name='a',kind='histogram',bins=10,classes=1}]")
    for bins in range(2, 11):
        said = np.zeros(11)
        said[0], said[1 : 1 + bins] = 50, 50 / bins
        encoded = words.encode_values(said)
        assert encoded[1:].sum() <= encoded[0]


def test_local_noise_is_the_whole_target_for_each_party() -> None:
    words = words_of(NOISY[0].replace("threshold", "local"), NOISY[1])
    assert words.slack == pytest.approx(1.5 * 2 * 50 * math.sqrt(5), rel=1e-9)


def test_noise_of_colluders_does_not_count() -> None:
    """The noise of a smallest sum without that of its colluders is the whole noise."""
    colluding = ("secure_sum.min_survivors=4", "secure_sum.colluders_per_cluster=2")
    words = words_of(*NOISY, *colluding)
    target = 1.5 * 2 * 50 * math.sqrt(5)
    assert words.slack * math.sqrt(4 - 2) == pytest.approx(target, rel=1e-9)


@pytest.mark.parametrize(
    ("at", "value", "doubt"),
    [
        (0, -1.0, "-1 samples, and 2 members have at most 100"),
        (0, 101.0, "101 samples"),
        (1, 31.0, "loss counts more than all samples"),
        (1, -31.0, "loss is lower than possible"),
        (2, 101.0, "costs counts more than all samples"),
        (3, -1.0, "scores is lower than possible"),
        (13, 31.0, "table counts more than all samples"),
    ],
)
def test_an_impossible_sum_is_named(at: int, value: float, doubt: str) -> None:
    words = words_of()
    read = np.zeros(22)
    read[0] = 30
    assert words.doubt(read, 2) == ""
    read[at] = value
    assert words.doubt(read, 2).startswith(doubt)
