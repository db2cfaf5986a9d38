"""Columns in blocks that fit the cache, with ranked values, for rules that go coordinate by coordinate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from securefl.arrays import F64

BLOCK_VALUES = 1 << 16
"""Values (rows times columns) in one block: half a mebibyte of float64."""


class Block(NamedTuple):
    """Some columns of an f64 ``(c, d)`` array. The next block overwrites its arrays."""

    at: slice
    """Which columns."""
    rows: F64
    """Their values, contiguous, in the order of the rows."""
    ranked: F64
    """Their values, each column in ascending order."""
    scratch: F64
    """Space of the same shape. Fresh memory for each block would cost more than the arithmetic on it."""


def column_blocks(array: F64) -> Iterator[Block]:
    """All columns of ``array`` in order. O(``BLOCK_VALUES`` + c) memory."""
    clusters, columns = array.shape
    width = min(max(1, BLOCK_VALUES // clusters), max(1, columns))
    buffers = np.empty((3, clusters * width))
    for start in range(0, columns, width):
        at = slice(start, min(start + width, columns))
        shape = (clusters, at.stop - start)
        rows, ranked, scratch = (flat[: shape[0] * shape[1]].reshape(shape) for flat in buffers)
        rows[:] = array[:, at]
        ranked[:] = rows
        ranked.sort(axis=0)
        yield Block(at, rows, ranked, scratch)
