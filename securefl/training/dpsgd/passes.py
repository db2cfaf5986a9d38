"""Passes of a batch through the model: the rows of each tensor, and the example in each row.

A matrix product selects its kernel by the number of rows, and may compute the last rows of a tensor by
another kernel than the first. So the last bits of an example's gradient depend on the number of rows and on
the row of the example. In a *fixed* pass neither depends on the other examples of the batch: each tensor has
the same number of rows, each example has a row that is drawn for it, and holes have a public sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from securefl.base.arrays import I64, BoolArray


class Pass(NamedTuple):
    """Examples of one tensor."""

    picks: I64
    """Positions of the examples in the batch, i64 (k,), k >= 1."""
    places: I64
    """Row of each example, i64 (k,), no two alike."""
    rows: int
    """Rows of the tensor, k or more."""

    def present(self, there: BoolArray) -> BoolArray:
        """Return a mask of the rows that count, bool ``(rows,)``: those of the examples in ``there``."""
        mask = np.zeros(self.rows, dtype=bool)
        mask[self.places[there]] = True
        return mask


def dense_passes(examples: int, rows: int) -> list[Pass]:
    """Return passes without holes, in the order of the batch; the last one has fewer rows."""
    bounds = [(first, min(first + rows, examples)) for first in range(0, examples, rows)]
    return [Pass(np.arange(first, last), np.arange(last - first), last - first) for first, last in bounds]


def fixed_passes(slots: I64, rows: int) -> list[Pass]:
    """Return passes of ``rows`` rows each, with the example of slot s in row s mod ``rows``.

    Of several examples in one row, the first is in the first pass, the next in the second, and so on. The
    pass of an example depends on the others; its row does not.

    Args:
        slots: of the batch's examples, i64 ``(k,)``.
        rows: of each pass, at least 1.
    """
    places = slots % rows
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], places[order], side="left")
    passes = np.empty_like(places)
    passes[order] = np.arange(len(places)) - starts
    count = int(passes.max(initial=-1)) + 1
    members = [np.flatnonzero(passes == number) for number in range(count)]
    return [Pass(picks, places[picks], rows) for picks in members]
