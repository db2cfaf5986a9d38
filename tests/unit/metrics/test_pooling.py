"""Pooled values, medians over clusters, and how far liars move these."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from securefl.methods.metrics import MetricWords, measure, metric_words, said_by
from securefl.scenario.load import parse_scenario

TEXT = """
name = "m"
parties = 30
[model]
type = "weights"
[clustering]
size = 3
[evaluation]
samples = 100
metrics = [{name = "loss", kind = "mean"}]
"""


def words() -> MetricWords:
    found = metric_words(parse_scenario(TEXT), 32)
    assert found is not None
    return found


def cluster(made: MetricWords, *sites: tuple[int, float]) -> np.ndarray:
    total: np.ndarray = np.sum(
        [made.encode_values(said_by(made.evaluation, n, {"loss": x})) for n, x in sites], axis=0
    )
    return total


def test_the_pooled_value_is_that_of_all_samples() -> None:
    made = words()
    sums = [(0, cluster(made, (10, 0.5), (30, 0.25)), 2), (1, cluster(made, (60, 0.75)), 1)]
    (found,), doubted = measure(made, sums, median=False)
    assert abs(found.value - (10 * 0.5 + 30 * 0.25 + 60 * 0.75) / 100) < 1e-5
    assert (found.clusters, doubted) == (2, ())
    assert abs(found.low - 0.3125) < 1e-5
    assert abs(found.high - 0.75) < 1e-5
    assert measure(made, sums, median=True)[0][0].value == found.median


def test_noise_alone_makes_no_sum_impossible() -> None:
    """Three standard deviations below no samples, or above all of them, happen to honest sums."""
    noisy = parse_scenario(TEXT, ("privacy={unit='party',multiplier=1,delta=1e-5}", "encoding.clip=1"))
    made = metric_words(noisy, 32)
    assert made is not None
    spread = 3 * made.slack * math.sqrt(2)
    for samples in (-spread, 200 + spread):
        read = np.array([samples, 0.5 * samples])
        assert made.doubt(read, 2) == ""
        assert words().doubt(read, 2) != ""


def test_impossible_sums_count_for_nothing() -> None:
    made = words()
    good = cluster(made, (10, 0.5), (30, 0.25))
    found, doubted = measure(made, [(0, good, 2), (1, good + (2_000 << made.scale), 2)], median=False)
    assert [one.cluster for one in doubted] == [1]
    assert found[0].clusters == 1
    assert measure(made, [(1, good + (2_000 << made.scale), 2)], median=False)[0] == ()


@given(
    st.lists(st.floats(0.2, 0.4), min_size=10, max_size=10),
    st.lists(st.floats(0, 1), min_size=2, max_size=2),
    st.permutations(range(10)),
)
def test_liars_in_two_of_ten_clusters_move_the_median_by_two_places(
    honest: list[float], lies: list[float], order: list[int]
) -> None:
    made = words()
    before = [(j, cluster(made, (50, x), (50, x), (50, x)), 3) for j, x in enumerate(honest)]
    after = list(before)
    for place, lie in zip(order, lies, strict=False):
        after[place] = (place, cluster(made, (50, honest[place]), (50, honest[place]), (100, lie)), 3)
    (found,), _ = measure(made, after, median=True)
    ranks = sorted(honest)
    assert ranks[2] - 1e-4 <= found.value <= ranks[7] + 1e-4


def test_roots_are_of_each_sum_and_of_all_samples() -> None:
    made = metric_words(
        parse_scenario(TEXT, ("evaluation.metrics=[{name='loss',kind='mean',root=true}]",)), 32
    )
    assert made is not None
    rng = np.random.default_rng(5)
    sites = [rng.uniform(0, 1, size=rng.integers(5, 90)) for _ in range(12)]
    sums = [
        (j, cluster(made, *((len(one), float(np.mean(one**2))) for one in sites[3 * j : 3 * j + 3])), 3)
        for j in range(4)
    ]
    (found,), _ = measure(made, sums, median=True)
    clusters = [np.concatenate(sites[3 * j : 3 * j + 3]) for j in range(4)]
    each = [np.sqrt(np.mean(one**2)) for one in clusters]
    want = (
        np.median(each),
        np.sqrt(np.mean(np.concatenate(clusters) ** 2)),
        np.median(each),
        min(each),
        max(each),
    )
    got = (found.value, found.pooled, found.median, found.low, found.high)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_what_lies_below_a_metrics_range_is_impossible() -> None:
    """Of a loss from 0 on, one liar's negative word would outweigh what all others say."""
    made = words()
    good = cluster(made, (10, 0.5), (30, 0.25))
    low = good + np.array([0, -(20 << made.scale)])
    found, doubted = measure(made, [(0, good, 2), (1, low, 2)], median=False)
    assert [(one.cluster, one.reason) for one in doubted] == [(1, "loss is lower than possible")]
    assert abs(found[0].pooled - 0.3125) < 1e-5


def test_our_side_bounds_a_word_by_the_range() -> None:
    changed = (
        "evaluation.metrics=[{name='loss',kind='mean',lower=2,upper=8},{name='n',kind='sum',lower=1,upper=4}]"
    )
    made = metric_words(parse_scenario(TEXT, (changed,)), 32)
    assert made is not None
    for said, loss, number in ((-np.inf, 2, 0), (np.inf, 8, 4)):
        sent = np.ldexp(made.encode_values(np.array([50.0, said, said])).astype(float), -made.scale)
        np.testing.assert_allclose(sent, [50, 50 * loss / 8, 100 * number / 4], atol=1e-4)
    assert not made.encode_values(np.zeros(3)).any(), "whoever fails sends zeros"


@given(st.integers(0, 2**32 - 1))
def test_a_fifth_of_parties_in_pairs_move_the_median_by_as_many_places(seed: int) -> None:
    """60 parties in 30 random pairs, 12 of which make of their sum what they like within the range."""
    made, rng = words(), np.random.default_rng(seed)
    honest, drawn = rng.uniform(0.2, 0.4, 60), rng.permutation(60).reshape(30, 2)
    before = [cluster(made, *((50, float(honest[party])) for party in pair)) for pair in drawn]
    lies = [cluster(made, (50, lie), (50, lie)) for lie in rng.integers(0, 2, 30).astype(float)]
    spoiled = np.min(drawn, axis=1) < 12
    after = [(j, lies[j] if spoiled[j] else before[j], 2) for j in range(30)]
    (found,), doubted = measure(made, after, median=True)
    ranks, places = np.sort(honest[drawn].mean(axis=1)), int(spoiled.sum())
    assert not doubted
    assert places <= 12
    assert ranks[14 - places] - 1e-4 <= found.value <= ranks[15 + places] + 1e-4
