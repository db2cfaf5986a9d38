"""Lengths of the cluster means and their angles to a vector, also where squares overflow."""

from __future__ import annotations

import numpy as np

from securefl.base.arrays import F64
from securefl.methods.robust.span import pieces

_TRUSTED = 1e-290, 1e300
"""Squared lengths in between have lost nothing to overflow or underflow."""


def lengths(rows: F64) -> F64:
    """||x_i||, f64 ``(c,)``; infinite only if the length itself is beyond float64."""
    with np.errstate(over="ignore"):
        squared: F64 = np.einsum("ij,ij->i", rows, rows)
        result = np.sqrt(squared)
        for index in _doubtful(squared):
            largest = _power(rows[index])
            result[index] = _length(rows[index] / largest) * largest
    return result


def polar(rows: F64, vector: F64) -> tuple[F64, F64]:
    """||x_i||, and the cosine of its angle to ``vector`` (0 where either is zero), f64 ``(c,)`` each."""
    vector = vector / _power(vector)
    length = _length(vector)
    inner, squared, result = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    with np.errstate(over="ignore", invalid="ignore"):
        for at in pieces(rows):
            inner += np.einsum("ij,j->i", rows[:, at], vector[at])
            squared += np.einsum("ij,ij->i", rows[:, at], rows[:, at])
        norms: F64 = np.sqrt(squared)
        np.divide(inner, norms * length, out=result, where=(squared > 0) & (length > 0))
        for index in _doubtful(squared):
            largest = _power(rows[index])
            row = rows[index] / largest
            norms[index] = _length(row) * largest
            product = _length(row) * length
            result[index] = float(np.einsum("j,j->", row, vector)) / product if product else 0.0
    return norms, np.clip(result, -1.0, 1.0)


def _doubtful(squared: F64) -> list[int]:
    rows: list[int] = np.flatnonzero((squared < _TRUSTED[0]) | (squared > _TRUSTED[1])).tolist()
    return rows


def _length(vector: F64) -> float:
    return float(np.sqrt(np.einsum("j,j->", vector, vector)))


def _power(vector: F64) -> float:
    """A power of two of about the largest magnitude in ``vector``; 1 if that is zero."""
    largest = float(np.abs(vector).max(initial=0.0))
    return float(2.0 ** (int(np.frexp(largest)[1]) - 1)) if largest else 1.0
