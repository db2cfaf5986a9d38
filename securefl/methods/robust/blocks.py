"""Columns in blocks that fit the cache, with ranked values, for rules that go coordinate by coordinate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from securefl.base.arrays import F64

BLOCK_VALUES = 1 << 16
"""Values (rows times columns) in one block: half a mebibyte of float64."""


class Block(NamedTuple):
    """Some columns of an f64 ``(c, d)`` array. Its arrays are free to use; the next block overwrites them."""

    at: slice
    """Which columns."""
    rows: F64
    """Their values, contiguous, in the order of the rows, zeros without a sign."""
    ranked: F64
    """Their values, each column in ascending order."""
    scratch: F64
    """Space of the same shape. Fresh memory for each block would cost more than the arithmetic on it."""


def tag_mask(clusters: int) -> int:
    """The lowest bits of a float64 that :func:`column_blocks` gives to the index of one of so many rows."""
    return (1 << (clusters - 1).bit_length()) - 1


def column_blocks(array: F64, tagged: bool = False) -> Iterator[Block]:
    """All columns of ``array`` in order. O(``BLOCK_VALUES`` + c) memory.

    Args:
        array: f64 ``(c, d)``, finite.
        tagged: write each row's index into the lowest bits of what ``ranked`` holds (:func:`tag_mask`), which
            tells whose value has which rank for much less than an ``argsort``. Values that differ in these
            bits only, or in sign only, are then ranked anyhow.
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
        # Of zeros with and without a sign either may come first in a sort: there shall be one zero only.
        np.add(array[:, at], 0.0, out=rows)
        if tagged:
            bits = np.bitwise_and(rows.view(np.int64), ~mask, out=ranked.view(np.int64))
            bits |= tags
        else:
            ranked[:] = rows
        ranked.sort(axis=0)
        yield Block(at, rows, ranked, scratch)
