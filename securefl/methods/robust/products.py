"""Sums and products whose bits are the same on every machine, so that anybody can repeat a rule's result.

A matrix product adds in an order that depends on the BLAS build, its kernel for the processor, the number of
threads and the place of a row, and may round products and sums together. Here it only ever sees small
integers, whose products and sums float64 holds exactly: then no order rounds. All other sums are made of
elementwise operations, each rounded as IEEE 754 says, in an order that depends on nothing but the shapes.
"""

import functools
import math

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64

_COLUMNS = 128
_BITS = 23
"""128 products of integers of up to 2^23 stay within 2^53, whatever part of them has been added."""
_SMALL = 48
"""Up to so many rows the general product is faster than the symmetric one, though it does twice the work."""
_LEAST_EXPONENT = -990
"""Of a row's largest value; products of anything smaller underflow in any case."""
_STRIP = 1 << 13
"""Columns that are handled at a time. Memory is read fastest in long runs, whatever fits the cache."""
_PROBED = 1031
"""Columns that einsum is tried on: its loop for many values at a time, and that for the last few."""
_GROUP = 10
"""Rows that are handled at a time where there is no matrix product."""
_BLOCK = 1 << 16
"""Values of a block of all rows where what is made of it has as many."""
_LARGEST_BATCH = 1 << 20
"""Values of the products of pieces that are held at a time."""
_SPREAD = 4
"""Rows whose largest values are within 2^4 of each other are rounded to the same unit."""


def total(values: F64) -> float:
    """The sum of a few values, f64 ``(n,)``, correctly rounded: their order does not matter."""
    return math.fsum(values.tolist())


def fold(values: F64) -> F64:
    """The sums over the first axis, by halves; ``values`` are overwritten, and the result is their first row.

    The order depends on the number of rows alone.
    """
    count = len(values)
    while count > 1:
        half = (count + 1) // 2
        values[: count - half] += values[half:count]
        count = half
    first: F64 = values[0]
    return first


def combine(coefficients: F64, rows: F64) -> F64:
    """``sum_i a_i x_i``, f64 ``(d,)``, added in the order of the rows, each operation rounded by itself."""
    vector = np.empty(rows.shape[1])
    if _einsum_rounds_each() and len(vector) >= _PROBED:
        np.einsum("i,ij->j", coefficients, rows, out=vector)
        return vector
    for start in range(0, len(vector), _STRIP):
        at = slice(start, start + _STRIP)
        combine_plainly(coefficients, rows[:, at], vector[at])
    return vector


def combine_plainly(coefficients: F64, rows: F64, vector: F64) -> None:
    """:func:`combine` into ``vector``, by two operations of numpy's a row."""
    vector[:] = 0.0
    product = np.empty(len(vector))
    for coefficient, row in zip(coefficients.tolist(), rows, strict=True):
        np.multiply(row, coefficient, out=product)
        vector += product


@functools.cache
def _einsum_rounds_each() -> bool:
    """Whether einsum gives these bits, too, as it does where it is not compiled to fused operations.

    It then needs one pass instead of two. Fused, it would differ in a third of what is tried here.
    """
    coefficients: F64 = 1.0 / np.arange(3.0, 8.0)
    rows: F64 = np.sqrt(np.arange(2.0, 2.0 + 5 * _PROBED)).reshape(5, _PROBED)
    expected = np.empty(_PROBED)
    combine_plainly(coefficients, rows, expected)
    return np.array_equal(np.einsum("i,ij->j", coefficients, rows), expected)


def dots(rows: F64, *others: F64) -> tuple[F64, ...]:
    """<x_i, y> or <x_i, y_i> by row, f64 ``(c,)``, for each of ``others``, f64 ``(d,)`` or ``(c, d)``.

    The order of the additions depends on d alone.
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
    """The inner products of ``factor * (x_i - origin)``, f64 ``(c, c)``; O(c^2 + block) memory.

    Each row is first rounded to 23 bits below its largest value in some thousand columns, that is, each value
    by 2^-24 of that at most. The products are those of the rounded rows, up to 1e-15 of their lengths: so
    what holds for products of points (no distance below zero, the triangle inequality) holds for them, too,
    identical rows have identical products, and another order of the rows gives the same numbers in another
    order. Products beyond float64 are infinite or NaN, without a warning.
    """
    clusters, dimension = rows.shape
    count = min(_STRIP // _COLUMNS, _LARGEST_BATCH // clusters**2, -(-dimension // _COLUMNS))
    count = max(1, count)
    width = count * _COLUMNS
    # Rows a power of two apart would share few sets of the cache. The spare row keeps numpy from taking a
    # product of few rows for a symmetric one.
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
    """Sums of weighted rows: by row of ``chosen``, bool ``(k, c)``, over the rows it names, f64 ``(k, d)``.

    Each is divided by its one of ``divisors``, f64 ``(k,)``.

    What is added is first rounded, in each column, to 53 - log2(c) bits below the largest value in it among
    rows of about the same size: a sum of integers is exact. A far larger row leaves the digits of the others
    alone. ``weights``: at most 2^-8, so that nothing overflows.
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
            # Most often all rows are of one size, and need not be copied first.
            piece = rows[:, at] if len(names) == clusters else rows[names, at]
            scaled = scaled_rows[: len(names) * columns].reshape(len(names), columns)
            np.multiply(piece, weights[names][:, np.newaxis], out=scaled)
            # Adding 1.5 * 2^52 units leaves no digits below one unit.
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
    """The numbers of all rows but those of zeros, in groups of about one size, the largest first."""
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
    """The largest powers of two that are not above ``values``, but at least the smallest normal number."""
    bits = values.view(np.int64) & (0x7FF << 52)
    powers: F64 = np.maximum(bits, 1 << 52).view(np.float64)
    return powers
