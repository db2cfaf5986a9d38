"""What every aggregation rule owes its callers. A new rule is one line in ``CASES`` and a reference."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from securefl.base.arrays import F64
from securefl.base.errors import ConfigError, UsageError
from securefl.base.stack import ClusterMeans, Kept
from securefl.methods.robust import distances
from securefl.methods.robust.catalogue import aggregate
from securefl.methods.robust.rules.bulyan import Bulyan
from securefl.methods.robust.rules.centred_clipping import CentredClipping
from securefl.methods.robust.rules.fltrust import FlTrust
from securefl.methods.robust.rules.geometric_median import GeometricMedian
from securefl.methods.robust.rules.krum import Krum
from securefl.methods.robust.rules.mean import Mean
from securefl.methods.robust.rules.mean_around_median import MeanAroundMedian
from securefl.methods.robust.rules.median import Median
from securefl.methods.robust.rules.minimum_diameter import MinimumDiameter
from securefl.methods.robust.rules.multi_krum import MultiKrum
from securefl.methods.robust.rules.sign_majority import SignMajority
from securefl.methods.robust.rules.trimmed_mean import TrimmedMean
from securefl.methods.robust.rules.zeno_plus_plus import ZenoPlusPlus
from securefl.methods.robust.tolerance import breakdown
from securefl.scenario.aggregation import Rule
from tests.contracts.naive_rules import (
    Reference,
    naive_bulyan,
    naive_centred_clipping,
    naive_geometric_median,
    naive_krum,
    naive_mean,
    naive_mean_around_median,
    naive_median,
    naive_minimum_diameter,
    naive_multi_krum,
    naive_sign_majority,
    naive_trimmed_mean,
    naive_weight_trimmed_mean,
)
from tests.tiers import examples


def breaks_at_once(rule: Rule, clusters: int) -> tuple[int, int]:
    """One past the breakdown point."""
    first = breakdown(rule, clusters) + 1
    return first, first


def krum_breaks(rule: Rule, clusters: int) -> tuple[int, int]:
    """The guarantee ends at ``byzantine``; unbounded values win from here on (docstrings of both rules)."""
    assert isinstance(rule, Krum | MultiKrum)
    first = min(clusters - rule.byzantine - 1, max(rule.byzantine + 2, math.ceil(clusters / 2)))
    if isinstance(rule, MultiKrum):
        # Whether a near tie lets a row into the last places before that depends on the attack.
        surely = min(first, clusters - (rule.keep or clusters - rule.byzantine) + 1)
        return breakdown(rule, clusters) + 1, surely
    return first, first


def bulyan_breaks(rule: Rule, clusters: int) -> tuple[int, int]:
    """Not before its number; surely with half of the rows."""
    first = breakdown(rule, clusters) + 1
    return first, max(first, math.ceil(clusters / 2))


def never_breaks(_rule: Rule, clusters: int) -> tuple[int, int]:
    return clusters + 1, clusters + 1


class Case(NamedTuple):
    rule: Rule
    reference: Reference
    breaks: Callable[[Rule, int], tuple[int, int]] = breaks_at_once
    """From how many Byzantine rows on unbounded values may win, and from how many on they do."""
    weighted: bool = True
    negation: bool = True
    agreement: bool = True
    invariant: bool = True
    """To translation and scale, at unchanged parameters."""
    rounding: float = 1e-14
    """Of the result when the same rows come in another order or layout."""


RFA, CLIPPING = GeometricMedian(), CentredClipping(radius=4.0, iterations=3)
CASES = [
    Case(Mean(), naive_mean),
    Case(Median(), naive_median),
    Case(TrimmedMean(trim=0), naive_trimmed_mean(0)),
    Case(TrimmedMean(trim=1), naive_trimmed_mean(1)),
    Case(TrimmedMean(trim=3), naive_trimmed_mean(3)),
    Case(TrimmedMean(trim="count", beta=0.0), naive_trimmed_mean(0)),
    Case(TrimmedMean(trim="weight", beta=0.0), naive_mean),
    Case(TrimmedMean(trim="weight", beta=0.125), naive_weight_trimmed_mean(Fraction(1, 8))),
    Case(TrimmedMean(trim="weight", beta=0.375), naive_weight_trimmed_mean(Fraction(3, 8))),
    Case(MeanAroundMedian(byzantine=0), naive_mean_around_median(0)),
    Case(MeanAroundMedian(byzantine=1), naive_mean_around_median(1)),
    Case(MeanAroundMedian(byzantine=3), naive_mean_around_median(3)),
    Case(Krum(byzantine=0), naive_krum(0), krum_breaks, weighted=False, negation=False),
    Case(Krum(byzantine=1), naive_krum(1), krum_breaks, weighted=False, negation=False),
    Case(Krum(byzantine=2), naive_krum(2), krum_breaks, weighted=False, negation=False),
    Case(MultiKrum(byzantine=1), naive_multi_krum(1, None), krum_breaks, negation=False),
    Case(MultiKrum(byzantine=2, keep=2), naive_multi_krum(2, 2), krum_breaks, negation=False),
    Case(MultiKrum(byzantine=0, keep=4), naive_multi_krum(0, 4), krum_breaks, negation=False),
    Case(Bulyan(byzantine=0), naive_bulyan(0), bulyan_breaks),
    Case(Bulyan(byzantine=1), naive_bulyan(1), bulyan_breaks, negation=False),
    Case(Bulyan(byzantine=2), naive_bulyan(2), bulyan_breaks, negation=False),
    Case(MinimumDiameter(byzantine=0), naive_minimum_diameter(0)),
    Case(MinimumDiameter(byzantine=1), naive_minimum_diameter(1), negation=False),
    Case(MinimumDiameter(byzantine=2), naive_minimum_diameter(2), negation=False),
    Case(RFA, naive_geometric_median(RFA), invariant=False, rounding=1e-5),
    Case(
        CLIPPING,
        naive_centred_clipping(CLIPPING),
        never_breaks,
        agreement=False,
        invariant=False,
        rounding=1e-7,
    ),
    Case(SignMajority(step=1.0), naive_sign_majority, never_breaks, agreement=False, invariant=False),
]


def every(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: str(case.rule))


EVERY = every(CASES)
BEYOND = [0, 1, 2, 5]
"""Clusters beyond those that the rule needs."""
FURTHER = pytest.mark.parametrize("further", BEYOND)

WIDTH = 16
"""Coordinates in the attacks: more than clusters, so one direction is perpendicular to all honest rows."""

QUICK = settings(max_examples=examples(25), deadline=None)
LAW = settings(max_examples=examples(10), deadline=None)
"""For laws that follow from the definitions, with which every rule is compared more often."""


def stack_of(means: F64, weights: F64 | None = None) -> ClusterMeans:
    clusters = means.shape[0]
    return ClusterMeans(
        means=means,
        weights=np.ones(clusters) if weights is None else weights,
        survivors=np.full(clusters, 3, dtype=np.int64),
    )


def vector_of(rule: Rule, means: F64, weights: F64 | None = None) -> F64:
    return aggregate(rule, stack_of(means, weights)).vector


VALUES = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0])
WEIGHTS = np.array([1.0, 0.5, 0.25, 0.75, 3.0])


@st.composite
def small_stacks(draw: st.DrawFn, case: Case) -> tuple[F64, F64]:
    """Small integers, so that ties are frequent and all sums and distances exact; dyadic weights."""
    needed = case.rule.clusters_needed
    clusters, width = draw(st.integers(needed, needed + 5)), draw(st.integers(1, 4))
    # All numbers in one draw each: hypothesis takes as long for a byte as for a kilobyte.
    kinds = draw(st.sampled_from([9, 2, 3, 1]))
    means = VALUES[some_bytes(draw, clusters * width) % kinds].reshape(clusters, width)
    return means, WEIGHTS[some_bytes(draw, clusters) % 5]


def some_bytes(draw: st.DrawFn, count: int) -> NDArray[np.uint8]:
    return np.frombuffer(draw(st.binary(min_size=count, max_size=count)), dtype=np.uint8)


@EVERY
@QUICK
@given(data=st.data())
def test_equals_the_naive_reference(case: Case, data: st.DataObject) -> None:
    means, weights = data.draw(small_stacks(case))
    expected = case.reference(
        [[Fraction(x) for x in row] for row in means.tolist()], [Fraction(w) for w in weights.tolist()]
    )
    got = vector_of(case.rule, means, weights)
    if isinstance(case.rule, GeometricMedian):
        # Minimisers need not be unique, and the reference need not have arrived.
        best = sum_of_distances(np.array([float(x) for x in expected]), means, weights)
        assert sum_of_distances(got, means, weights) <= best * (1 + 1e-6) + 1e-5
    else:
        slack = case.rounding
        np.testing.assert_allclose(got, [float(x) for x in expected], rtol=slack, atol=slack)


def sum_of_distances(point: F64, means: F64, weights: F64) -> float:
    return float(weights @ np.linalg.norm(means - point, axis=1))


@EVERY
@LAW
@given(data=st.data())
def test_order_of_the_clusters_does_not_matter(case: Case, data: st.DataObject) -> None:
    means, weights = data.draw(small_stacks(case))
    order = data.draw(st.permutations(range(len(means))).map(list))
    straight = aggregate(case.rule, stack_of(means, weights))
    permuted = aggregate(case.rule, stack_of(means[order], weights[order]))
    np.testing.assert_allclose(permuted.vector, straight.vector, rtol=case.rounding, atol=case.rounding)
    # Of clusters that agree in everything either one may be kept.
    assert identities(means, weights, straight.kept) == identities(
        means[order], weights[order], permuted.kept
    )


def identities(means: F64, weights: F64, kept: Kept) -> list[tuple[float, ...]]:
    return sorted((*row, w) for row, w, k in zip(means.tolist(), weights.tolist(), kept, strict=True) if k)


@every([case for case in CASES if case.invariant])
@LAW
@given(data=st.data(), shift=st.integers(-50, 50))
def test_translation_moves_the_result_along(case: Case, data: st.DataObject, shift: int) -> None:
    means, weights = data.draw(small_stacks(case))
    offset = float(shift) + np.arange(means.shape[1])
    moved = vector_of(case.rule, means + offset, weights)
    np.testing.assert_allclose(moved, vector_of(case.rule, means, weights) + offset, rtol=1e-13, atol=1e-13)


@every([case for case in CASES if case.invariant])
@LAW
@given(data=st.data(), scale=st.sampled_from([0.0, 2.0**-20, 0.375, 7.0, 2.0**30]))
def test_scale_goes_through(case: Case, data: st.DataObject, scale: float) -> None:
    means, weights = data.draw(small_stacks(case))
    scaled = vector_of(case.rule, scale * means, weights)
    # Where kept values cancel, the result is as exact as the values that it is made of, not as itself.
    atol = 1e-13 * scale * np.abs(means).max()
    np.testing.assert_allclose(scaled, scale * vector_of(case.rule, means, weights), rtol=1e-13, atol=atol)


@every([case for case in CASES if case.negation])
@LAW
@given(data=st.data())
def test_negation_goes_through(case: Case, data: st.DataObject) -> None:
    """Not claimed by the rules that choose rows: their tie-break has a direction."""
    means, weights = data.draw(small_stacks(case))
    negated, slack = vector_of(case.rule, -means, weights), case.rounding
    np.testing.assert_allclose(negated, -vector_of(case.rule, means, weights), rtol=slack, atol=slack)


@EVERY
@LAW
@given(row=arrays(np.float64, 5, elements=st.floats(-1e100, 1e100, allow_subnormal=False)))
def test_clusters_that_agree_are_followed(case: Case, row: F64) -> None:
    for further in BEYOND:
        clusters = case.rule.clusters_needed + further
        weights = np.linspace(0.1, 1.0, clusters)
        result = aggregate(case.rule, stack_of(np.tile(row, (clusters, 1)), weights))
        if case.agreement:
            np.testing.assert_allclose(result.vector, row, rtol=1e-14, atol=1e-300)
        assert result.kept.sum() == places(case.rule, clusters)


def places(rule: Rule, clusters: int) -> int:
    """Clusters that the rule keeps when they agree."""
    match rule:
        case Krum():
            return 1
        case MultiKrum(byzantine=byzantine, keep=keep):
            return keep or clusters - byzantine
        case MinimumDiameter(byzantine=byzantine):
            return clusters - byzantine
        case Bulyan(byzantine=byzantine):
            return clusters - 2 * byzantine
        case _:
            return clusters


@EVERY
@FURTHER
def test_bounded_by_the_honest_up_to_the_breakdown(case: Case, further: int) -> None:
    clusters = case.rule.clusters_needed + further
    honest = np.random.default_rng(further).normal(size=(clusters, WIDTH))
    for liars in range(breakdown(case.rule, clusters) + 1):
        truth = honest[liars:]
        for size in (1e3, 1e12, 1e150, 1e300, -1e300):
            for lies in lies_of(liars, size, truth):
                assert_bounded(case.rule, vector_of(case.rule, np.vstack([lies, truth])), truth, clusters)


def assert_bounded(rule: Rule, result: F64, truth: F64, clusters: int) -> None:
    """What each docstring promises, in terms of the honest rows."""
    closest = min((math.dist(result, row) for row in truth), default=math.inf)
    diameter = max((math.dist(a, b) for a, b in itertools.combinations(truth, 2)), default=0.0)
    slack = 1e-12
    match rule:
        case Mean() | Median() | TrimmedMean() | MeanAroundMedian() | Bulyan():
            low, high = truth.min(axis=0), truth.max(axis=0)
            beyond = high - low if isinstance(rule, MeanAroundMedian | Bulyan) else 0.0
            assert np.all(result >= low - beyond - slack)
            assert np.all(result <= high + beyond + slack)
        case Krum(byzantine=byzantine):
            assert closest <= math.sqrt(clusters - byzantine - 2) * diameter
        case MultiKrum(byzantine=byzantine):
            assert closest <= (math.sqrt(clusters - byzantine - 2) + 1) * diameter + slack
        case MinimumDiameter():
            assert closest <= diameter + slack
        case GeometricMedian():
            centre = truth.mean(axis=0)
            spread = max(math.dist(centre, row) for row in truth)
            factor = 2 * len(truth) / (2 * len(truth) - clusters)
            assert math.dist(result, centre) <= factor * spread + 1e-3
        case CentredClipping(radius=radius, iterations=iterations):
            assert np.linalg.norm(result) <= radius * iterations * (1 + slack)
        case SignMajority(step=step):
            unanimous = np.abs(np.sign(truth).sum(axis=0)) == len(truth)
            assert np.all(np.abs(result) <= step)
            assert np.array_equal(result[unanimous], step * np.sign(truth[0, unanimous]))
        case _:
            raise AssertionError(rule)


def lies_of(liars: int, size: float, truth: F64) -> list[F64]:
    """All at one point, at two opposite ones, each at its own, and all equally far from every honest row."""
    everywhere = np.full((liars, WIDTH), size)
    signs = np.where(np.arange(liars) % 2, -1.0, 1.0)[:, np.newaxis]
    spread = np.linspace(0.5, 1.0, liars)[:, np.newaxis]
    lies = [everywhere, signs * everywhere, spread * everywhere]
    if len(truth):
        aside = np.linalg.svd(truth - truth[0])[2][-1]
        lies.append(np.tile(size * aside, (liars, 1)))
    return lies


@EVERY
@FURTHER
def test_unbounded_values_win_where_they_are_said_to_and_not_before(case: Case, further: int) -> None:
    clusters = case.rule.clusters_needed + further
    size = 1e5
    honest = np.random.default_rng(further).normal(size=(clusters, WIDTH))
    first, surely = case.breaks(case.rule, clusters)
    assert breakdown(case.rule, clusters) < first <= surely
    for liars in range(1, clusters + 1):
        truth = honest[liars:]
        worst = max(
            float(np.abs(vector_of(case.rule, np.vstack([lies, truth]))).max())
            for lies in lies_of(liars, size, truth)
        )
        broken = worst > size / (10 * clusters)
        assert broken if liars >= surely else not broken or liars >= first, liars


@EVERY
def test_weights_count_or_do_not(case: Case) -> None:
    clusters = case.rule.clusters_needed + 3
    means = np.random.default_rng(5).normal(size=(clusters, 3))
    means[0] = means[1:].mean(axis=0) + 0.01  # in the middle, so that no rule leaves it out
    heavy = np.ones(clusters)
    heavy[0] = 1e6
    changed = not np.array_equal(vector_of(case.rule, means), vector_of(case.rule, means, heavy))
    assert changed is case.weighted


@EVERY
def test_common_factor_of_the_weights_does_not_count(case: Case) -> None:
    clusters = case.rule.clusters_needed + 4
    rng = np.random.default_rng(6)
    means, weights = rng.normal(size=(clusters, 50)), rng.uniform(0.1, 3.0, clusters)
    np.testing.assert_allclose(
        vector_of(case.rule, means, 1e-3 * weights), vector_of(case.rule, means, weights), rtol=1e-12
    )


@EVERY
def test_result_does_not_depend_on_the_blocks(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = case.rule.clusters_needed + 3
    rng = np.random.default_rng(7)
    means, weights = rng.normal(size=(clusters, 101)).round(1), rng.integers(1, 4, clusters) / 4.0
    whole = aggregate(case.rule, stack_of(means, weights))
    for values in (1, 7 * clusters, 101 * clusters):
        monkeypatch.setattr(distances, "BLOCK_VALUES", values)
        parts = aggregate(case.rule, stack_of(means, weights))
        np.testing.assert_allclose(parts.vector, whole.vector, rtol=1e-14, atol=1e-15)
        np.testing.assert_array_equal(parts.kept, whole.kept)


@EVERY
def test_input_is_read_only_and_the_result_its_own(case: Case) -> None:
    means = np.random.default_rng(8).normal(size=(case.rule.clusters_needed, 4))
    means.flags.writeable = False
    result = aggregate(case.rule, stack_of(means))
    assert not np.shares_memory(result.vector, means)
    assert result.vector.dtype == np.float64
    assert result.kept.dtype == np.bool_
    assert result.vector.shape == (4,)
    assert result.kept.shape == (len(means),)


@EVERY
def test_layout_of_the_input_does_not_matter(case: Case) -> None:
    means = np.random.default_rng(9).normal(size=(case.rule.clusters_needed + 2, 9))
    np.testing.assert_allclose(
        vector_of(case.rule, np.asfortranarray(means)), vector_of(case.rule, means), rtol=case.rounding
    )


@EVERY
def test_refuses_too_few_clusters(case: Case) -> None:
    needed = case.rule.clusters_needed
    assert vector_of(case.rule, np.ones((needed, 2))).tolist() == [1.0, 1.0]
    if needed > 1:
        with pytest.raises(
            UsageError, match=f"cannot aggregate {needed - 1} clusters: it needs at least {needed}"
        ):
            vector_of(case.rule, np.ones((needed - 1, 2)))


@EVERY
def test_fewer_clusters_than_needed_tolerate_nothing(case: Case) -> None:
    assert [breakdown(case.rule, c) for c in range(case.rule.clusters_needed)] == [
        0
    ] * case.rule.clusters_needed


@pytest.mark.parametrize(
    ("rule", "clusters", "needed", "tolerated"),
    [
        (Mean(), 9, 1, 0),
        (Median(), 1, 1, 0),
        (Median(), 2, 1, 0),
        (Median(), 3, 1, 1),
        (Median(), 20, 1, 9),
        (TrimmedMean(trim=2), 5, 5, 2),
        (TrimmedMean(trim=2), 4, 5, 0),
        (TrimmedMean(trim=2), 20, 5, 2),
        (Krum(byzantine=2), 7, 5, 2),
        (Krum(byzantine=2), 6, 5, 0),
        (Krum(byzantine=0), 3, 3, 0),
        (MultiKrum(byzantine=2), 7, 5, 2),
        (MultiKrum(byzantine=2), 6, 5, 0),
        (MultiKrum(byzantine=2, keep=4), 7, 6, 2),
        (MultiKrum(byzantine=2, keep=4), 5, 6, 0),
        (MeanAroundMedian(byzantine=2), 5, 5, 2),
        (MeanAroundMedian(byzantine=2), 4, 5, 0),
        (Bulyan(byzantine=2), 11, 11, 2),
        (Bulyan(byzantine=2), 10, 11, 0),
        (GeometricMedian(), 20, 1, 9),
        (CentredClipping(radius=1.0), 20, 1, 9),
        (SignMajority(step=1.0), 1, 1, 0),
        (SignMajority(step=1.0), 20, 1, 9),
        (MinimumDiameter(byzantine=2), 5, 5, 2),
        (FlTrust(), 4, 1, 4),
        (ZenoPlusPlus(), 4, 1, 0),
        (ZenoPlusPlus(scale="mean"), 4, 1, 4),
        (ZenoPlusPlus(scale="mean", rho=0.0), 4, 1, 0),
    ],
)
def test_numbers_of_the_rules(rule: Rule, clusters: int, needed: int, tolerated: int) -> None:
    assert rule.clusters_needed == needed
    assert breakdown(rule, clusters) == tolerated


@QUICK
@given(
    arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 5)), elements=st.floats(-1e9, 1e9)),
    st.floats(0.01, 100.0),
)
def test_median_of_equal_weights_is_the_ordinary_one(means: F64, weight: float) -> None:
    got = vector_of(Median(), means, np.full(len(means), weight))
    np.testing.assert_array_equal(got, np.median(means, axis=0))


def test_weighted_median_by_hand() -> None:
    means = np.array([[1.0], [2.0], [10.0]])
    assert vector_of(Median(), means, np.array([1.0, 1.0, 5.0])).tolist() == [10.0]
    assert vector_of(Median(), means, np.array([5.0, 1.0, 1.0])).tolist() == [1.0]
    assert vector_of(Median(), means, np.array([1.0, 1.0, 2.0])).tolist() == [6.0]
    assert vector_of(Median(), means, np.array([0.1, 0.2, 0.3])).tolist() == [6.0]
    # Exactly half, though a third is no whole number of units.
    weights = np.array([0.25, 0.25, 3.0, 3.0, 0.5])
    assert vector_of(Median(), np.arange(5.0)[:, np.newaxis], weights).tolist() == [2.5]


@QUICK
@given(data=st.data())
def test_weighted_median_holds_while_the_liars_weigh_less_than_half(data: st.DataObject) -> None:
    weights = np.array(data.draw(st.lists(st.integers(1, 1000), min_size=2, max_size=9)), dtype=np.float64)
    liars = np.array(data.draw(st.lists(st.booleans(), min_size=len(weights), max_size=len(weights))))
    means = np.arange(float(len(weights)))[:, np.newaxis].copy()
    means[liars] = 1e9
    result = float(vector_of(Median(), means, weights / 1000)[0])
    assert (result < 1e8) is bool(2 * weights[liars].sum() < weights.sum())


@QUICK
@given(data=st.data())
def test_trimming_by_weight_holds_up_to_its_share_of_the_weight_and_by_count_whatever_they_weigh(
    data: st.DataObject,
) -> None:
    """With all liars at one end: by weight the result is moved as soon as they have more than beta of it."""
    weights = np.array(data.draw(st.lists(st.integers(1, 1000), min_size=3, max_size=9)), dtype=np.float64)
    liars = np.array(data.draw(st.lists(st.booleans(), min_size=len(weights), max_size=len(weights))))
    means = np.arange(float(len(weights)))[:, np.newaxis].copy()
    means[liars] = data.draw(st.sampled_from([1e9, -1e9]))
    by_weight = abs(float(vector_of(TrimmedMean(trim="weight", beta=0.25), means, weights)[0]))
    share = weights[liars].sum() / weights.sum()
    if abs(share - 0.25) > 1e-6:
        assert (by_weight <= len(weights)) is bool(share < 0.25)
    by_count = abs(float(vector_of(TrimmedMean(trim=1), means, weights)[0]))
    assert (by_count <= len(weights)) is bool(liars.sum() <= 1)


def test_many_clusters_against_sorted_values() -> None:
    """A size at which bisection takes several rounds; the reference repeats each value weight times."""
    rng = np.random.default_rng(10)
    means = rng.normal(size=(61, 40)).round(1)
    weights = rng.integers(1, 9, 61)
    got = vector_of(Median(), means, weights / 8.0)
    np.testing.assert_allclose(got, np.median(np.repeat(means, weights, axis=0), axis=0), rtol=1e-14)


def test_trimmed_mean_keeps_those_that_survive_in_half_of_their_coordinates() -> None:
    means = np.array(
        [[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0], [9.0, 9.0, 1.5, 1.5], [3.0] * 4]
    )
    result = aggregate(TrimmedMean(trim=1), stack_of(means))
    assert result.kept.tolist() == [False, True, True, True, True]
    np.testing.assert_allclose(result.vector, [2.0, 2.0, 1.5, 1.5])


def test_krum_keeps_the_one_it_chose() -> None:
    means = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1], [5.0, 5.0], [-7.0, 0.0]])
    result = aggregate(Krum(byzantine=1), stack_of(means))
    assert result.kept.tolist() == [True, False, False, False, False]
    np.testing.assert_array_equal(result.vector, means[0])


def good() -> dict[str, object]:
    return {
        "means": np.zeros((3, 2)),
        "weights": np.ones(3),
        "survivors": np.ones(3, dtype=np.int64),
        "noise_std": 0.0,
    }


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("means", np.zeros((3, 2), dtype=np.float32), "dtype"),
        ("means", np.zeros(3), "shape"),
        ("means", np.zeros((0, 2)), "at least 1 cluster"),
        ("means", np.array([[0.0, 0.0], [0.0, math.nan], [0.0, 0.0]]), "row 1"),
        ("means", np.array([[0.0, 0.0], [0.0, 0.0], [-math.inf, 0.0]]), "row 2"),
        ("weights", np.ones(2), "shape"),
        ("weights", np.ones(3, dtype=np.int64), "dtype"),
        ("weights", np.array([1.0, 0.0, 1.0]), "positive"),
        ("weights", np.array([1.0, -1.0, 1.0]), "positive"),
        ("weights", np.array([1.0, math.nan, 1.0]), "positive"),
        ("weights", np.array([1.0, math.inf, 1.0]), "positive"),
        ("survivors", np.ones(3), "dtype"),
        ("survivors", np.ones(4, dtype=np.int64), "shape"),
        ("survivors", np.array([1, 0, 1]), "survivor"),
        ("noise_std", -1.0, "noise_std"),
        ("noise_std", math.nan, "noise_std"),
        ("reference", np.ones(3), "reference"),
        ("reference", np.array([0.0, math.nan]), "reference"),
        ("server_gradient", np.ones(2, dtype=np.float32), "server_gradient"),
        ("server_gradient", np.array([0.0, math.inf]), "server_gradient"),
    ],
)
def test_a_bad_stack_is_our_fault(field: str, value: object, message: str) -> None:
    ClusterMeans(**good())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message):
        ClusterMeans(**{**good(), field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TrimmedMean(trim=-1),
        lambda: MeanAroundMedian(byzantine=-1),
        lambda: Krum(byzantine=-1),
        lambda: MultiKrum(byzantine=-1),
        lambda: MultiKrum(byzantine=1, keep=-1),
        lambda: Bulyan(byzantine=-1),
        lambda: MinimumDiameter(byzantine=-1),
        lambda: GeometricMedian(smoothing=0.0),
        lambda: GeometricMedian(tolerance=-1.0),
        lambda: GeometricMedian(iterations=0),
        lambda: CentredClipping(radius=0.0),
        lambda: CentredClipping(radius=1.0, iterations=0),
        lambda: SignMajority(step=0.0),
    ],
)
def test_parameters_out_of_range_are_refused(make: Callable[[], Rule]) -> None:
    with pytest.raises(ConfigError):
        make()
