"""Lengths of the cluster means and their angles to a vector, also where squares overflow."""

from __future__ import annotations

import numpy as np

from securefl.arrays import F64

_TRUSTED = 1e-290, 1e300
"""Squared lengths in between have lost nothing to overflow or underflow."""


def lengths(rows: F64) -> F64:
    """||x_i||, f64 ``(c,)``; infinite only if the length itself is beyond float64."""
    with np.errstate(over="ignore"):
        squared: F64 = np.einsum("ij,ij->i", rows, rows)
        result = np.sqrt(squared)
        for index in np.flatnonzero((squared < _TRUSTED[0]) | (squared > _TRUSTED[1])).tolist():
            largest = _power(rows[index])
            result[index] = np.linalg.norm(rows[index] / largest) * largest
    return result


def cosines(rows: F64, vector: F64) -> F64:
    """Cosine of the angle between each row and ``vector``, f64 ``(c,)``; 0 where either is zero."""
    vector = vector / _power(vector)
    length = float(np.linalg.norm(vector))
    with np.errstate(over="ignore", invalid="ignore"):
        inner = np.einsum("ij,j->i", rows, vector)
        squared: F64 = np.einsum("ij,ij->i", rows, rows)
        result = np.zeros(len(rows))
        np.divide(inner, np.sqrt(squared) * length, out=result, where=(squared > 0) & (length > 0))
    for index in np.flatnonzero((squared < _TRUSTED[0]) | (squared > _TRUSTED[1])).tolist():
        row = rows[index] / _power(rows[index])
        product = float(np.linalg.norm(row)) * length
        result[index] = float(np.einsum("j,j->", row, vector)) / product if product else 0.0
    return np.clip(result, -1.0, 1.0)


def _power(vector: F64) -> float:
    """A power of two of about the largest magnitude in ``vector``; 1 if that is zero."""
    largest = float(np.abs(vector).max(initial=0.0))
    return float(2.0 ** (int(np.frexp(largest)[1]) - 1)) if largest else 1.0
