"""The parts that rules are made of: distances, spans, lengths, and the search of minimum diameter."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import ClusterMeans
from securefl.methods.robust.distances import Span, in_row_order, lengths, polar, squared_distances
from securefl.methods.robust.products import combine
from securefl.methods.robust.rules.centred_clipping import centred_clipping
from securefl.methods.robust.rules.geometric_median import geometric_median
from securefl.methods.robust.rules.minimum_diameter import MAX_DIAMETER_BYZANTINE, minimum_diameter
from tests.tiers import examples


def stack_of(means: F64, weights: F64 | None = None, reference: F64 | None = None) -> ClusterMeans:
    ones = np.ones(len(means))
    return ClusterMeans(
        means, ones if weights is None else weights, ones.astype(np.int64), reference=reference
    )


@given(st.integers(0, 10**6), st.floats(-140, 140))
@settings(max_examples=examples(30), deadline=None)
def test_a_point_and_its_distances(seed: int, exponent: float) -> None:
    rng = np.random.default_rng(seed)
    rows, shares = rng.normal(size=(5, 30)) * 10.0**exponent, rng.dirichlet(np.ones(5))
    origin = rng.normal(size=30) * 10.0**exponent if seed % 2 else None
    span = Span(rows, origin)
    point = span.point(shares)
    np.testing.assert_allclose(point, shares @ rows, rtol=1e-9, atol=10.0 ** (exponent - 9))
    expected = [math.dist(point, row) for row in rows]
    np.testing.assert_allclose(span.distances(shares), expected, rtol=1e-6)
    expected_pairs = [[math.dist(a, b) for b in rows] for a in rows]
    np.testing.assert_allclose(span.between_rows(), expected_pairs, rtol=1e-6)


def test_an_enormous_row_leaves_the_distances_of_the_others_alone() -> None:
    rows = np.vstack([np.full((1, 8), 1e300), np.random.default_rng(1).normal(size=(4, 8))])
    span = Span(rows)
    shares = np.array([1e-300, 0.25, 0.25, 0.25, 0.25])
    expected = [math.dist(span.point(shares), row) for row in rows[1:]]
    np.testing.assert_allclose(span.distances(shares)[1:], expected, rtol=1e-6)


def test_combinations_do_not_depend_on_the_pieces() -> None:
    rng = np.random.default_rng(2)
    rows, shares = rng.normal(size=(3, 400_000)), rng.normal(size=3)
    np.testing.assert_array_equal(combine(shares, rows), np.einsum("i,ij->j", shares, rows))


@pytest.mark.parametrize("scale", [0.0, 1e-320, 1e-200, 1.0, 1e200, 1e308])
def test_lengths_and_angles_at_the_ends_of_float64(scale: float) -> None:
    rows = scale * np.array([[0.3, 0.4], [-0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(
        lengths(rows), [scale / 2, scale / 2, 0.0], rtol=1e-2 if scale < 1e-300 else 1e-12
    )
    for other in (1e-200, 1.0, 1e300):
        norms, got = polar(rows, other * np.array([0.3, 0.4]))
        np.testing.assert_array_equal(norms, lengths(rows))
        expected = np.array([1.0, 0.28, 0.0]) if scale else np.zeros(3)
        np.testing.assert_allclose(got, expected, rtol=1e-2 if scale < 1e-300 else 1e-12)
    assert not polar(rows, np.zeros(2))[1].any()


def test_a_length_beyond_float64_is_infinite() -> None:
    assert lengths(np.full((1, 100), 1e308)).tolist() == [math.inf]


def test_row_order_is_lexicographic_and_then_by_weight() -> None:
    rows = np.array([[2.0, 0.0, 1.0], [1.0, 5.0, 0.0], [1.0, 4.0, 9.0], [1.0, 4.0, 9.0]])
    stack = stack_of(rows, np.array([1.0, 1.0, 3.0, 2.0]))
    assert in_row_order(stack, range(4)) == [3, 2, 1, 0]
    long = np.zeros((2, 5_000))
    long[0, 4_999] = 1.0
    assert in_row_order(stack_of(long), [0, 1]) == [1, 0]


def test_distances_that_overflow_are_infinite() -> None:
    squared = squared_distances(np.array([[1e200], [-1e200], [1.0]]))
    assert squared[0, 1] == math.inf
    assert squared.diagonal().tolist() == [0.0, 0.0, 0.0]


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 5))
@settings(max_examples=examples(40), deadline=None)
def test_minimum_diameter_is_the_smallest(seed: int, byzantine: int, further: int) -> None:
    means = np.random.default_rng(seed).normal(size=(2 * byzantine + 1 + further, 3))
    kept = minimum_diameter(stack_of(means), byzantine).kept
    apart = squared_distances(means)

    def diameter(some: tuple[int, ...]) -> float:
        return float(apart[np.ix_(some, some)].max())

    best = min(diameter(c) for c in itertools.combinations(range(len(means)), len(means) - byzantine))
    assert kept.sum() == len(means) - byzantine
    assert diameter(tuple(np.flatnonzero(kept).tolist())) == best


def test_minimum_diameter_of_many_rows() -> None:
    """C(100, 20) is 5e20: enumeration would not end."""
    means = np.random.default_rng(4).normal(size=(100, 2))
    means[:20] += 9.0
    assert not minimum_diameter(stack_of(means), MAX_DIAMETER_BYZANTINE).kept[:20].any()


def test_minimum_diameter_beyond_its_reach_is_refused() -> None:
    with pytest.raises(UsageError, match="byzantine must be from 0 to"):
        minimum_diameter(stack_of(np.zeros((99, 1))), MAX_DIAMETER_BYZANTINE + 1)


def test_geometric_median_of_corners() -> None:
    """Fermat's point of an equilateral triangle, and a corner that is heavier than the others together."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]])
    fermat = geometric_median(stack_of(corners), 1e-6, 1e-12, 1000).vector
    np.testing.assert_allclose(fermat, [0.5, math.sqrt(0.75) / 3], atol=1e-5)
    heavy = geometric_median(stack_of(corners, np.array([1.0, 3.0, 1.0])), 1e-6, 1e-12, 1000).vector
    np.testing.assert_allclose(heavy, [1.0, 0.0], atol=1e-5)


def test_geometric_median_scales_with_its_smoothing_and_moves_along() -> None:
    means = np.random.default_rng(6).normal(size=(9, 5))
    base = geometric_median(stack_of(means), 1e-3, 1e-12, 1000).vector
    scaled = geometric_median(stack_of(1e6 * means), 1e3, 1e-12, 1000).vector
    np.testing.assert_allclose(scaled, 1e6 * base, rtol=1e-4)
    moved = geometric_median(stack_of(means + 7.0), 1e-3, 1e-12, 1000).vector
    np.testing.assert_allclose(moved, base + 7.0, rtol=1e-4)


@pytest.mark.parametrize("iterations", [1, 7])
def test_centred_clipping_moves_with_its_reference_and_scales_with_its_radius(iterations: int) -> None:
    rng = np.random.default_rng(7)
    means, reference = rng.normal(size=(6, 4)), rng.normal(size=4)
    base = centred_clipping(stack_of(means, reference=reference), 0.8, iterations).vector
    moved = centred_clipping(stack_of(means + 3.0, reference=reference + 3.0), 0.8, iterations).vector
    np.testing.assert_allclose(moved, base + 3.0, rtol=1e-7)
    scaled = centred_clipping(stack_of(8.0 * means, reference=8.0 * reference), 6.4, iterations).vector
    np.testing.assert_allclose(scaled, 8.0 * base, rtol=1e-12)


def test_centred_clipping_within_its_radius_is_the_mean() -> None:
    means, weights = np.random.default_rng(8).normal(size=(5, 3)), np.linspace(0.5, 1.0, 5)
    got = centred_clipping(stack_of(means, weights), 100.0).vector
    np.testing.assert_allclose(got, np.average(means, axis=0, weights=weights), rtol=1e-12)


def test_centred_clipping_stays_by_its_reference_whoever_lies() -> None:
    reference = np.array([5.0, 5.0])
    lies = np.array([[1e300, 0.0], [-1e300, 1e300], [1e150, 3.0]])
    got = centred_clipping(stack_of(lies, reference=reference), 0.5, 4).vector
    assert math.dist(got, reference) <= 2.0 * (1 + 1e-12)
