"""The inner-product rule on one stack: scores, threshold, choice, ties, and what it does not protect from."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import ClusterMeans
from securefl.methods.robust.catalogue import aggregate_all, earned_by
from securefl.methods.robust.pre_aggregation.bucketing import Bucketing, bucket
from securefl.methods.robust.pre_aggregation.norm_clipping import NormClipping
from securefl.methods.robust.rules.inner_product import InnerProduct, above_mean, inner_product, products
from securefl.methods.robust.tolerance import breakdown, places
from securefl.scenario.aggregation import Aggregation
from tests.looped import looped
from tests.tiers import examples

QUICK = settings(max_examples=examples(60), deadline=None)
GAMMAS = st.sampled_from([0.1, 0.2, 0.4, 0.5, 2 / 3, 0.9, 1.0])


def stack_of(means: F64, gradient: F64, trust: list[float] | None = None) -> ClusterMeans:
    clusters = len(means)
    counts = np.ones(clusters, dtype=np.int64)
    given_trust = None if trust is None else np.array(trust)
    return ClusterMeans(means, np.ones(clusters), counts, server_gradient=gradient, trust=given_trust)


def scored(scores: list[float], trust: list[float] | None = None) -> ClusterMeans:
    """Clusters with these scores."""
    return stack_of(np.array(scores)[:, np.newaxis], np.array([-1.0]), trust)


def kept(scores: list[float], gamma: float, trust: list[float] | None = None) -> list[int]:
    selected: list[int] = np.flatnonzero(
        inner_product(scored(scores, trust), InnerProduct(gamma=gamma)).kept
    ).tolist()
    return selected


@pytest.mark.parametrize(
    ("gamma", "clusters", "expected"),
    [(0.07, 100, 7), (0.071, 100, 8), (0.4, 50, 20), (0.1, 3, 1), (1e-9, 5, 1), (1.0, 7, 7), (1 / 3, 9, 3)],
)
def test_places_round_up_and_exact_shares_stay_exact(gamma: float, clusters: int, expected: int) -> None:
    assert places(gamma, clusters) == expected


@QUICK
@given(
    scores=st.lists(st.integers(-8, 8), min_size=1, max_size=9),
    gamma=st.sampled_from([Fraction(1, 5), Fraction(1, 2), Fraction(2, 3), Fraction(1)]),
)
def test_what_is_earned_is_zero_below_the_mean_of_the_highest(scores: list[int], gamma: Fraction) -> None:
    top = sorted(scores)[-max(1, -(-gamma * len(scores) // 1)) :]
    mean = Fraction(sum(top), len(top))
    got = above_mean(np.array(scores, dtype=np.float64), float(gamma))
    assert got.tolist() == [0 if score < mean else score for score in scores]


@looped("clusters, value", product(range(1, 12), [0.1, -0.3, 1e290, 7e-310]))
def test_equal_scores_all_reach_their_mean(value: float, clusters: int) -> None:
    """The mean of n equal floats may come out above them."""
    assert above_mean(np.full(clusters, value), 1.0).tolist() == [value] * clusters


def test_a_negative_mean_punishes_the_better_as_printed() -> None:
    """Lines 10 to 13: what is below the threshold becomes 0, which is then the highest score."""
    assert above_mean(np.array([-1.0, -2.0, -3.0]), 2 / 3).tolist() == [-1.0, 0.0, 0.0]
    assert kept([-1.0, -2.0, -3.0], 2 / 3) == [1, 2]


def test_scores_are_products_with_descent() -> None:
    gradient = np.array([3.0, -4.0, 0.0])
    stack = stack_of(np.array([[-1.0, 1.0, 5.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), gradient)
    plain = np.array([7.0, -6.0, 0.0])
    length = np.array([np.sqrt(27), 2.0, 1.0])
    for normalised, expected in (
        ("none", plain),
        ("gradient", plain / 5),
        ("upload", plain / length),
        ("both", plain / length / 5),
    ):
        rule = InnerProduct(gamma=0.5, normalised=normalised)  # type: ignore[arg-type]
        np.testing.assert_allclose(products(stack, rule), expected, rtol=1e-15)


@pytest.mark.parametrize("normalised", ["none", "gradient", "upload", "both"])
def test_scores_are_finite_and_keep_their_sign_at_all_lengths(normalised: str) -> None:
    rule = InnerProduct(gamma=0.5, normalised=normalised)  # type: ignore[arg-type]
    down = -np.array([1.0, 2.0, -1.0])
    for size in (1e-300, 1.0, 1e300):
        for slope in (1e-200, 1.0, 1e300):
            means = size * np.array([down, -down, 0 * down, [2.0, -1.0, 0.0]])
            scores = products(stack_of(means, -slope * down), rule)
            assert np.isfinite(scores).all()
            assert scores[0] >= 0 >= scores[1]
            if normalised == "both" or size * slope > 1e-250:
                assert scores[0] > 0 > scores[1]
            assert scores[2] == 0
    assert products(stack_of(np.ones((2, 3)), np.zeros(3)), rule).tolist() == [0.0, 0.0]


def test_ties_go_to_the_score_of_the_round_and_then_by_the_rows() -> None:
    # Of 6, 3 are selected; only the first reaches the mean of the highest three.
    assert kept([9.0, 1.0, 4.0, -2.0, 3.0, 0.0], 0.5) == [0, 2, 4]
    # In round 0 without any positive score nobody has earned anything but the least bad ones.
    assert kept([0.0, 0.0, 0.0], 1 / 3) == [0]
    rows = np.array([[2.0, 1.0], [1.0, 2.0], [1.5, 1.5], [-5.0, 0.0]])
    assert inner_product(stack_of(rows, np.array([-1.0, -1.0])), InnerProduct(gamma=0.5)).kept.tolist() == [
        False,
        True,
        True,
        False,
    ]


def test_trust_comes_before_the_score_of_the_round() -> None:
    assert kept([9.0, 1.0, 4.0, 5.0], 0.5, [0.0, 7.0, 3.0, 3.0]) == [1, 3]


@QUICK
@given(
    scores=arrays(np.float64, st.integers(1, 8), elements=st.integers(-5, 5).map(float)),
    weights=st.lists(st.sampled_from([0.25, 1.0, 3.0]), min_size=8, max_size=8),
    gamma=GAMMAS,
    divide_by=st.sampled_from(["selected", "all"]),
)
def test_the_selected_are_added_up_by_weight(
    scores: F64, weights: list[float], gamma: float, divide_by: str
) -> None:
    own = np.array(weights[: len(scores)])
    stack = ClusterMeans(
        scores[:, np.newaxis], own, np.ones(len(scores), dtype=np.int64), server_gradient=np.array([-1.0])
    )
    result = inner_product(stack, InnerProduct(gamma=gamma, divide_by=divide_by))  # type: ignore[arg-type]
    assert result.kept.sum() == places(gamma, len(scores))
    whole = own if divide_by == "all" else own[result.kept]
    expected = (own * scores)[result.kept].sum() / whole.sum()
    assert result.vector.tolist() == [pytest.approx(expected, rel=1e-14, abs=1e-15)]


@QUICK
@given(
    honest=st.lists(st.floats(1e-3, 10), min_size=1, max_size=6),
    below=st.lists(st.floats(0, 1), min_size=0, max_size=9),
    gamma=GAMMAS,
    order=st.randoms(use_true_random=False),
)
def test_while_honest_products_are_positive_and_above_all_others_no_other_is_selected(
    honest: list[float], below: list[float], gamma: float, order: object
) -> None:
    """However many the others are, as long as no more are selected than there are honest ones."""
    clusters = len(honest) + len(below)
    if places(gamma, clusters) > len(honest):
        return
    others = [min(honest) * (2 * share - 1) * 0.999 for share in below]
    chosen = kept([*honest, *others], gamma)
    assert max(chosen) < len(honest)


def test_more_places_than_honest_clusters_are_filled_with_others() -> None:
    assert kept([1.0, 1.0, -9.0, -9.0, -9.0], 0.6) == [0, 1, 2]


@pytest.mark.parametrize("gamma", [0.2, 0.5, 1.0])
def test_one_long_row_along_descent_is_selected_and_the_only_one_to_earn(gamma: float) -> None:
    """The breakdown point is 0 because of it; with bounded lengths the result is bounded."""
    rng = np.random.default_rng(2)
    gradient = rng.normal(size=8)
    means = np.vstack([-gradient + 0.1 * rng.normal(size=(9, 8)), -1e6 * gradient])
    plan = Aggregation(rule=InnerProduct(gamma=gamma))
    stack = stack_of(means, gradient)
    result = aggregate_all(plan, stack, bytes(32))
    assert result.kept[-1]
    assert np.linalg.norm(result.vector) > 1e5 * np.linalg.norm(gradient)
    assert np.count_nonzero(earned_by(plan, InnerProduct(gamma=gamma), stack, bytes(32))) == 1
    assert breakdown(plan.rule, 10) == 0
    clipped = Aggregation(rule=plan.rule, pre_aggregation=(NormClipping(radius=4.0),))
    assert np.linalg.norm(aggregate_all(clipped, stack, bytes(32)).vector) <= 4.0 + 1e-12


def test_behind_buckets_a_cluster_earns_and_counts_what_its_bucket_does() -> None:
    rule, seed = InnerProduct(gamma=0.5), bytes(range(32))
    plan = Aggregation(rule=rule, pre_aggregation=(Bucketing(size=2),))
    scores, trust = [8.0, 6.0, 1.0, 3.0, -4.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    buckets, place = bucket(scored(scores), 2, seed)
    np.testing.assert_array_equal(
        earned_by(plan, rule, scored(scores), seed), above_mean(buckets.means[:, 0], 0.5)[place]
    )
    pooled = [np.mean([t for t, at in zip(trust, place, strict=True) if at == row]) for row in range(3)]
    best = sorted(range(3), key=lambda row: -pooled[row])[:2]
    got = aggregate_all(plan, scored(scores, trust), seed)
    assert got.kept.tolist() == [at in best for at in place]


@pytest.mark.parametrize("trust", [np.ones(2), np.full(3, np.nan), np.ones(3, dtype=np.float32)])
def test_trust_that_does_not_fit_is_a_bug(trust: F64) -> None:
    with pytest.raises(UsageError, match="trust"):
        ClusterMeans(np.ones((3, 2)), np.ones(3), np.ones(3, dtype=np.int64), trust=trust)
