"""Sums and products of one set of bits: exact where they claim it, in any order where they claim that."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.methods.robust import products
from securefl.methods.robust.distances import squared_distances
from securefl.methods.robust.products import combine, dots, fold, gram, subset_sums, total


def exact_gram(rows: F64) -> list[list[Fraction]]:
    as_fractions = [[Fraction(x) for x in row] for row in rows.tolist()]
    return [
        [sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0)) for b in as_fractions]
        for a in as_fractions
    ]


@pytest.mark.parametrize("shape", [(1, 1), (3, 128), (5, 129), (60, 40), (7, 9000)])
def test_products_of_short_integers_are_exact(shape: tuple[int, int]) -> None:
    """23 bits, so that rounding leaves them as they are, in two units that differ much."""
    rng = np.random.default_rng(1)
    rows = rng.integers(-(2**22), 2**22, shape).astype(np.float64)
    rows[::2] *= 2.0**-300
    rows[:, 0] = np.abs(rows).max(axis=1)
    expected = exact_gram(rows)
    got = gram(rows)
    slack = 0 if shape[1] <= 128 else Fraction(1, 2**50)
    for i, row in enumerate(got.tolist()):
        for j, value in enumerate(row):
            bound = slack * expected[i][i] if i == j else slack * max(expected[i][i], expected[j][j])
            assert abs(Fraction(value) - expected[i][j]) <= bound
    np.testing.assert_array_equal(got, got.T)


@pytest.mark.parametrize("clusters", [5, 48, 49, 70])
def test_products_of_rows_in_another_order_are_the_same_bits(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    rows, origin = rng.normal(size=(clusters, 10_001)), rng.normal(size=10_001)
    order = rng.permutation(clusters)
    for around in (None, origin):
        whole = gram(rows, around)
        np.testing.assert_array_equal(gram(rows[order], around), whole[np.ix_(order, order)])
        np.testing.assert_array_equal(gram(np.asfortranarray(rows), around), whole)
        shifted = rows if around is None else rows - around
        np.testing.assert_allclose(whole, shifted @ shifted.T, rtol=0, atol=1e-7 * 10_001)


def test_scale_of_products_goes_through_where_float64_would_overflow() -> None:
    rows = np.random.default_rng(3).normal(size=(4, 50)) * 1e200
    factor = 2.0**-700
    np.testing.assert_array_equal(gram(rows, factor=factor), gram(rows * factor))
    assert np.isinf(np.diagonal(gram(rows))).all()


def test_identical_rows_have_distance_zero_and_equal_distances() -> None:
    rng = np.random.default_rng(4)
    names = rng.integers(0, 9, 60)
    squared = squared_distances(rng.normal(size=(9, 5003))[names] * 1e3)
    same = names[:, np.newaxis] == names
    assert not squared[same].any()
    assert (squared[~same] > 0).all()
    for a in range(60):
        np.testing.assert_array_equal(squared[a], squared[np.flatnonzero(names == names[a])[0]])


def test_a_longer_row_in_front_does_not_change_the_distances_of_others() -> None:
    rows = np.random.default_rng(5).normal(size=(6, 700))
    with_one = squared_distances(np.vstack([np.full((1, 700), 1e300), rows]))
    np.testing.assert_array_equal(with_one[1:, 1:], squared_distances(rows))


def test_distances_are_as_exact_as_said() -> None:
    """To 1e-7 of the lengths, also where the difference is a thousandth of them."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=1000) + 1e-3 * rng.normal(size=(8, 1000))
    exact = np.linalg.norm(rows[:, np.newaxis] - rows, axis=2)
    error = np.abs(np.sqrt(squared_distances(rows)) - exact)
    assert error.max() <= 1e-7 * np.linalg.norm(rows, axis=1).min()


@pytest.mark.parametrize("dimension", [1, 2, 1030, 1031, 8193])
def test_combinations_have_one_set_of_bits_however_they_are_made(
    dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(dimension)
    rows, shares = rng.normal(size=(23, dimension)), rng.normal(size=23)
    got = combine(shares, rows)
    monkeypatch.setattr(products, "_einsum_rounds_each", lambda: False)
    plain = combine(shares, rows)
    expected = np.zeros(dimension)
    for share, row in zip(shares, rows, strict=True):
        expected += share * row
    np.testing.assert_array_equal(plain, expected)
    np.testing.assert_array_equal(got, expected)


def test_fused_operations_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fused(_subscripts: str, coefficients: F64, rows: F64) -> F64:
        sums = [Fraction(0)] * rows.shape[1]
        for a, row in zip(coefficients.tolist(), rows.tolist(), strict=True):
            sums = [Fraction(float(s + Fraction(a) * Fraction(x))) for s, x in zip(sums, row, strict=True)]
        return np.array([float(s) for s in sums])

    products._einsum_rounds_each.cache_clear()
    monkeypatch.setattr(np, "einsum", fused)
    assert not products._einsum_rounds_each()
    monkeypatch.undo()
    products._einsum_rounds_each.cache_clear()


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (21, 8193), (41, 30_001)])
def test_inner_products_row_by_row(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    rows, vector = rng.normal(size=shape), rng.normal(size=shape[1])
    squares, along = dots(rows, rows, vector)
    np.testing.assert_allclose(squares, (rows**2).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(along, rows @ vector, rtol=1e-11, atol=1e-11)
    alone = [dots(row[np.newaxis], vector)[0][0] for row in rows]
    np.testing.assert_array_equal(along, alone)


@pytest.mark.parametrize("scale", [1e-280, 1.0, 1e308])
def test_sums_of_subsets(scale: float) -> None:
    """To the last few bits, with rows of several sizes, and the same bits in any order of the rows."""
    rng = np.random.default_rng(8)
    rows = rng.uniform(-1.0, 1.0, (30, 501)) * scale
    rows[3:6] *= 1e-9
    rows[7] = 0.0
    weights, chosen = rng.uniform(0.5, 1.0, 30) / 2**13, rng.random((11, 30)) < 0.5
    ones = np.ones(11)
    got = subset_sums(chosen, rows, weights, ones)
    expected = [
        [sum(Fraction(x) for x in column) for column in (weights[c, None] * rows[c]).T] for c in chosen
    ]
    np.testing.assert_allclose(got, np.array(expected, dtype=np.float64), rtol=0, atol=2.0**-46 * scale / 256)
    small = np.zeros((1, 30), dtype=np.bool_)
    small[0, 3:6] = True
    np.testing.assert_allclose(
        subset_sums(small, rows, weights, ones[:1])[0],
        weights[3:6] @ rows[3:6],
        rtol=0,
        atol=1e-15 * 1e-9 * scale,
    )
    order = rng.permutation(30)
    np.testing.assert_array_equal(subset_sums(chosen[:, order], rows[order], weights[order], ones), got)


def test_sums_of_no_rows_but_zeros_are_zero() -> None:
    assert not subset_sums(
        np.ones((2, 3), dtype=np.bool_), np.zeros((3, 4)), np.ones(3) / 256, np.ones(2)
    ).any()


def test_small_sums_are_correctly_rounded_and_folds_sum() -> None:
    values = np.array([1e100, 1.0, -1e100, 2.0**-60])
    assert total(values) == 1.0
    for count in (1, 2, 3, 7, 64, 65):
        rows = np.arange(count * 3.0).reshape(count, 3)
        np.testing.assert_array_equal(fold(rows.copy()), rows.sum(axis=0))
