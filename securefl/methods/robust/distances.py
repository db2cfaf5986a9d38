"""Distances, lengths and angles of cluster means."""

import math
from collections.abc import Iterable, Iterator
from functools import cmp_to_key
from typing import NamedTuple

import numpy as np

from securefl.base.arrays import F64
from securefl.base.stack import ClusterMeans
from securefl.methods.robust import products
from securefl.methods.robust.products import dots, gram

BLOCK_VALUES = 1 << 16
"""Values in one block: half a mebibyte of float64."""


class Block(NamedTuple):
    """Columns of an f64 ``(c, d)`` array. The arrays may be modified; the next block overwrites them."""

    at: slice
    rows: F64
    """In the order of the rows, contiguous, zeros without a sign."""
    ranked: F64
    """Each column in ascending order."""
    scratch: F64
    """Buffer of the same shape, since fresh memory would cost more than the arithmetic."""


def tag_mask(clusters: int) -> int:
    """Return the mask of the lowest bits of a float64, for the index of one of ``clusters`` rows."""
    return (1 << (clusters - 1).bit_length()) - 1


def column_blocks(array: F64, tagged: bool = False) -> Iterator[Block]:
    """Yield all columns of ``array`` in order, in blocks that fit the cache.

    Args:
        array: f64 ``(c, d)``, finite.
        tagged: write each row's index into the lowest bits of the values in ``ranked`` (:func:`tag_mask`),
            which is much faster than an ``argsort``. Values that differ only in these bits, or only in sign,
            are ranked arbitrarily.
    """
    clusters, columns = array.shape
    mask = tag_mask(clusters)
    tags = np.arange(clusters, dtype=np.int64)[:, np.newaxis]
    width = min(max(1, BLOCK_VALUES // clusters), max(1, columns))
    buffers = np.empty((3, clusters * width))
    for start in range(0, columns, width):
        at = slice(start, min(start + width, columns))
        shape = (clusters, at.stop - start)
        rows, ranked, scratch = (flat[: shape[0] * shape[1]].reshape(shape) for flat in buffers)
        # A sort may put zeros of different signs in any order.
        np.add(array[:, at], 0.0, out=rows)
        if tagged:
            bits = np.bitwise_and(rows.view(np.int64), ~mask, out=ranked.view(np.int64))
            bits |= tags
        else:
            ranked[:] = rows
        ranked.sort(axis=0)
        yield Block(at, rows, ranked, scratch)


def squared_distances(rows: F64) -> F64:
    """Return ||x_i - x_j||^2 for all pairs of rows, f64 ``(c, c)``, zero on the diagonal.

    From a Gram matrix of rows rounded to 23 bits (:func:`securefl.methods.robust.products.gram`). Differences
    below 1e-7 of the rows' norms are lost, but a huge row only affects its own distances. Identical rows have
    distance 0 and equal distances to all others. Distances that overflow float64 are infinite. The bits are
    the same on every machine and for any order of the rows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        products = gram(rows)
        norms = np.diagonal(products)
        squared: F64 = norms[:, np.newaxis] + norms - 2.0 * products
    squared[np.isnan(squared)] = np.inf
    np.maximum(squared, 0.0, out=squared)
    np.fill_diagonal(squared, 0.0)
    return squared


def in_row_order(stack: ClusterMeans, indices: Iterable[int]) -> list[int]:
    """Return the indices by their rows in lexicographic order; identical rows by weight.

    Ties broken so do not depend on the order of the clusters.
    """

    def compare(a: int, b: int) -> int:
        return _compare(stack.means[a], stack.means[b]) or int(np.sign(stack.weights[a] - stack.weights[b]))

    return sorted(indices, key=cmp_to_key(compare))


def _compare(left: F64, right: F64) -> int:
    """Return a negative number if ``left`` comes first; compared pieces grow, as rows mostly differ early."""
    start, size = 0, 1
    while start < left.size:
        a, b = left[start : start + size], right[start : start + size]
        (differ,) = np.nonzero(a != b)
        if differ.size:
            return -1 if a[differ[0]] < b[differ[0]] else 1
        start, size = start + size, 8 * size
    return 0


_TRUSTED = 1e-290, 1e300
"""Squared lengths without overflow or underflow."""


def lengths(rows: F64) -> F64:
    """Return ||x_i||, f64 ``(c,)``; infinite only if the length itself overflows float64."""
    with np.errstate(over="ignore"):
        (squared,) = dots(rows, rows)
        result = np.sqrt(squared)
        for index in _doubtful(squared):
            largest = _power(rows[index])
            result[index] = _length(rows[index] / largest) * largest
    return result


def polar(rows: F64, vector: F64) -> tuple[F64, F64]:
    """Return ||x_i|| and the cosine of its angle to ``vector`` (0 if either is zero), f64 ``(c,)`` each."""
    vector = vector / _power(vector)
    length = _length(vector)
    result = np.zeros(len(rows))
    with np.errstate(over="ignore", invalid="ignore"):
        inner, squared = dots(rows, vector, rows)
        norms: F64 = np.sqrt(squared)
        np.divide(inner, norms * length, out=result, where=(squared > 0) & (length > 0))
        for index in _doubtful(squared):
            largest = _power(rows[index])
            row = rows[index] / largest
            norms[index] = _length(row) * largest
            product = _length(row) * length
            result[index] = float(dots(row[np.newaxis], vector)[0][0]) / product if product else 0.0
    return norms, np.clip(result, -1.0, 1.0)


def _doubtful(squared: F64) -> list[int]:
    rows: list[int] = np.flatnonzero((squared < _TRUSTED[0]) | (squared > _TRUSTED[1])).tolist()
    return rows


def _length(vector: F64) -> float:
    return math.sqrt(dots(vector[np.newaxis], vector)[0][0])


def _power(vector: F64) -> float:
    """Return a power of two near the largest magnitude in ``vector``; 1 for zeros."""
    largest = float(np.abs(vector).max(initial=0.0))
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 1.0


_LARGEST_SQUARE = 1e300
_SAFE_EXPONENT = 470
"""Squared lengths of values below 2^470 are below 2^1023 in up to 2^80 coordinates."""


class Span:
    """Rows relative to an origin, y_i = x_i - origin, and points u = sum_i a_i y_i.

    One Gram matrix gives the distances of a point to all rows in O(c^2). They are exact to about 1e-7 of the
    longest *honest* y_i (:func:`securefl.methods.robust.products.gram`). In the rules that use this class,
    the coefficient of an enormous row is as small as the row is long, so its products keep their relative
    precision. Rows whose squares leave the range of float64 are first scaled by a power of two.
    """

    def __init__(self, rows: F64, origin: F64 | None = None) -> None:
        self._rows = rows
        self._origin = origin
        self._unit = 1.0
        self._products = products.gram(rows, origin)
        if not np.diagonal(self._products).max() <= _LARGEST_SQUARE:
            largest = max(float(np.abs(a).max()) for a in (rows, *(() if origin is None else (origin,))))
            self._unit = math.ldexp(1.0, math.frexp(largest)[1] - _SAFE_EXPONENT)
            self._products = products.gram(rows, origin, 1.0 / self._unit)

    def between_rows(self) -> F64:
        """Return ||y_i - y_j||, f64 ``(c, c)``, zero on the diagonal."""
        norms = np.diagonal(self._products)
        squared: F64 = norms[:, np.newaxis] + norms - 2.0 * self._products
        np.fill_diagonal(squared, 0.0)
        return self._unit * np.sqrt(np.maximum(squared, 0.0))

    def distances(self, coefficients: F64) -> F64:
        """Return ||u - y_j|| for all rows, f64 ``(c,)``."""
        towards = products.fold(self._products * coefficients[:, np.newaxis])
        squared: F64 = products.total(coefficients * towards) - 2.0 * towards + np.diagonal(self._products)
        return self._unit * np.sqrt(np.maximum(squared, 0.0))

    def point(self, coefficients: F64) -> F64:
        """Return origin + u, f64 ``(d,)``, in one pass over the rows."""
        vector = products.combine(coefficients, self._rows)
        if self._origin is not None:
            vector += (1.0 - products.total(coefficients)) * self._origin
        return vector
