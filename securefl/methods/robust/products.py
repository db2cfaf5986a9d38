"""Sums and products with the same bits on every machine.

The rounding of a matrix product depends on the BLAS build, the processor and the threads. So matrix products
here only get small integers, which are exact in float64. All other sums are elementwise operations, rounded
by IEEE 754, in an order that depends only on the shapes.
"""

import functools
import math

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64

_COLUMNS = 128
_BITS = 23
"""Sums of 128 products of integers of up to 2^23 stay within 2^53."""
_SMALL = 48
"""Rows up to which the general product is faster than the symmetric one."""
_LEAST_EXPONENT = -990
"""Smallest exponent of a row's largest value."""
_STRIP = 1 << 13
"""Columns per step: long runs read memory fastest."""
_PROBED = 1031
"""Columns of the einsum probe, enough for both of its loops."""
_GROUP = 10
"""Rows per step without a matrix product."""
_BLOCK = 1 << 16
"""Values of a block of all rows in :func:`subset_sums`."""
_LARGEST_BATCH = 1 << 20
"""Largest number of values of a batch of products."""
_SPREAD = 4
"""Exponent range of rows that share one rounding unit."""


def total(values: F64) -> float:
    """Return the correctly rounded sum of a few values, f64 ``(n,)``, in any order."""
    return math.fsum(values.tolist())


def fold(values: F64) -> F64:
    """Return the sums over the first axis, by halves, in an order that depends only on the number of rows.

    Overwrites ``values``; the result is a view of its first row.
    """
    count = len(values)
    while count > 1:
        half = (count + 1) // 2
        values[: count - half] += values[half:count]
        count = half
    first: F64 = values[0]
    return first


def combine(coefficients: F64, rows: F64) -> F64:
    """Return ``sum_i a_i x_i``, f64 ``(d,)``, each operation rounded separately in the order of the rows."""
    vector = np.empty(rows.shape[1])
    if _einsum_rounds_each() and len(vector) >= _PROBED:
        np.einsum("i,ij->j", coefficients, rows, out=vector)
        return vector
    for start in range(0, len(vector), _STRIP):
        at = slice(start, start + _STRIP)
        combine_plainly(coefficients, rows[:, at], vector[at])
    return vector


def combine_plainly(coefficients: F64, rows: F64, vector: F64) -> None:
    """Write :func:`combine` to ``vector``."""
    vector[:] = 0.0
    product = np.empty(len(vector))
    for coefficient, row in zip(coefficients.tolist(), rows, strict=True):
        np.multiply(row, coefficient, out=product)
        vector += product


@functools.cache
def _einsum_rounds_each() -> bool:
    """Return True if einsum rounds each operation, and so gives the same bits in one pass instead of two."""
    coefficients: F64 = 1.0 / np.arange(3.0, 8.0)
    rows: F64 = np.sqrt(np.arange(2.0, 2.0 + 5 * _PROBED)).reshape(5, _PROBED)
    expected = np.empty(_PROBED)
    combine_plainly(coefficients, rows, expected)
    return np.array_equal(np.einsum("i,ij->j", coefficients, rows), expected)


def dots(rows: F64, *others: F64) -> tuple[F64, ...]:
    """Return <x_i, y> or <x_i, y_i>, f64 ``(c,)``, for each of ``others``, f64 ``(d,)`` or ``(c, d)``.

    The order of the additions depends only on d.
    """
    clusters, dimension = rows.shape
    width = min(_STRIP, max(1, dimension))
    result = tuple(np.empty(clusters) for _ in others)
    for first in range(0, clusters, _GROUP):
        some = slice(first, min(first + _GROUP, clusters))
        sums = np.zeros((len(others), some.stop - first, width))
        buffer = np.empty((some.stop - first, width))
        for start in range(0, dimension, width):
            at = slice(start, min(start + width, dimension))
            piece, product = rows[some, at], buffer[:, : at.stop - start]
            for added, other in zip(sums, others, strict=True):
                np.multiply(piece, other[at] if other.ndim == 1 else other[some, at], out=product)
                added[:, : at.stop - start] += product
        for column, added in zip(result, sums, strict=True):
            column[some] = fold(np.ascontiguousarray(added.T))
    return result


def gram(rows: F64, origin: F64 | None = None, factor: float = 1.0) -> F64:
    """Return the inner products of ``factor * (x_i - origin)``, f64 ``(c, c)``, in O(c^2 + block) memory.

    In each block of several thousand columns, each row is rounded to 23 bits below its largest value there:
    each value changes by at most 2^-24 of that. The products are those of the rounded rows, up to 1e-15 of
    their lengths, so distances satisfy the triangle inequality. Identical rows have identical products, and
    reordered rows the same numbers reordered. Products that overflow float64 are infinite or NaN, without a
    warning.
    """
    clusters, dimension = rows.shape
    count = min(_STRIP // _COLUMNS, _LARGEST_BATCH // clusters**2, -(-dimension // _COLUMNS))
    count = max(1, count)
    width = count * _COLUMNS
    # A power of two would share few sets of the cache; the spare row avoids numpy's symmetric product.
    padded = np.zeros((clusters + 1, width + 8))
    block = padded[:clusters, :width]
    left = padded[: clusters + (clusters <= _SMALL), :width]
    left = left.reshape(len(left), count, _COLUMNS).transpose(1, 0, 2)
    right = block.reshape(clusters, count, _COLUMNS).transpose(1, 2, 0)
    exact = np.empty((count, left.shape[1], clusters))
    products = np.zeros((clusters, clusters))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for start in range(0, dimension, width):
            at = slice(start, min(start + width, dimension))
            piece, used = rows[:, at], block[:, : at.stop - start]
            block[:, at.stop - start :] = 0.0
            if factor != 1.0:
                piece = np.multiply(piece, factor, out=used)
            if origin is not None:
                piece = np.subtract(piece, origin[at] * factor, out=used)
            largest = np.maximum(piece.max(axis=1), -piece.min(axis=1))
            unit = np.clip(np.frexp(largest)[1].astype(np.int64), _LEAST_EXPONENT, 1024) - _BITS
            np.multiply(piece, np.ldexp(1.0, -unit)[:, np.newaxis], out=used)
            np.rint(used, out=used)
            np.matmul(left, right, out=exact)
            products += np.ldexp(fold(exact)[:clusters], unit[:, np.newaxis] + unit)
    return products


def subset_sums(chosen: npt.NDArray[np.bool_], rows: F64, weights: F64, divisors: F64) -> F64:
    """Return sums of the weighted rows chosen by each row of ``chosen``, bool ``(k, c)``: f64 ``(k, d)``.

    Each is divided by its entry of ``divisors``, f64 ``(k,)``. ``weights`` are at most 2^-8, so nothing
    overflows. In each column, the summands are first rounded to 53 - log2(c) bits below the largest one among
    rows of similar size, so that their sum is exact. Far larger rows do not affect the digits of others.
    """
    groups = [(names, chosen[:, names].astype(np.float64)) for names in _alike(rows)]
    clusters, dimension = rows.shape
    sums = np.empty((len(chosen), dimension)) if groups else np.zeros((len(chosen), dimension))
    width = min(max(1, _BLOCK // clusters), max(1, dimension))
    scaled_rows, sum_of_rows = np.empty(clusters * width), np.empty(len(chosen) * width)
    for start in range(0, dimension, width):
        at = slice(start, min(start + width, dimension))
        columns = at.stop - start
        added = sum_of_rows[: len(chosen) * columns].reshape(len(chosen), columns)
        for number, (names, among) in enumerate(groups):
            # Rows of similar size need no copy.
            piece = rows[:, at] if len(names) == clusters else rows[names, at]
            scaled = scaled_rows[: len(names) * columns].reshape(len(names), columns)
            np.multiply(piece, weights[names][:, np.newaxis], out=scaled)
            # Adding and subtracting 1.5 * 2^52 units rounds to whole units.
            shift = _powers(np.maximum(scaled.max(axis=0), -scaled.min(axis=0)))
            shift *= 1.5 * 2.0 ** max(2, (len(names) - 1).bit_length())
            scaled += shift
            scaled -= shift
            if number:
                added += among @ scaled
            else:
                np.matmul(among, scaled, out=added)
        if groups:
            np.divide(added, divisors[:, np.newaxis], out=sums[:, at])
    return sums


def _alike(rows: F64) -> list[npt.NDArray[np.intp]]:
    """Return the indices of nonzero rows in groups of similar size, the largest first."""
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
    exponents = np.frexp(largest)[1]
    left = largest > 0
    groups = []
    while left.any():
        group = left & (exponents > exponents[left].max() - _SPREAD)
        groups.append(np.flatnonzero(group))
        left &= ~group
    return groups


def _powers(values: F64) -> F64:
    """Return the largest powers of two <= ``values``, but at least the smallest normal number."""
    bits = values.view(np.int64) & (0x7FF << 52)
    powers: F64 = np.maximum(bits, 1 << 52).view(np.float64)
    return powers
