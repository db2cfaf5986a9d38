"""Estimates of a party's update from opened sums, and the likelihood of a canary in it."""

import math
from typing import NamedTuple

import numpy as np

from securefl.base.arrays import F64, I64
from securefl.base.errors import UsageError


class Estimate(NamedTuple):
    """Best linear estimate of a party's noisy update."""

    factors: F64
    """f64 ``(openings,)``: factor of each opened sum."""
    leverage: float
    """Variance of one party's noise over that of the estimate (privacy-notes.md, section 2)."""


def best_estimate(rows: I64, party: int) -> Estimate | None:
    """Return the unbiased combination of sums with least variance, if all noise is equal and independent.

    Other updates are assumed known: A(x_i e_i + Z) remains. Generalised least squares has the factors (A
    A^T)^+ a_i / P_ii and the variance s^2 / P_ii.

    Args:
        rows: A, ``(openings, parties)``, 0 or 1: openings of one update.
        party: i, the column.

    Returns:
        None for a party in no opening.

    Raises:
        UsageError: the column does not exist.
    """
    if rows.ndim != 2 or not 0 <= party < rows.shape[1]:
        raise UsageError(
            f"party must be a column of rows, found party {party} and rows of shape {rows.shape}"
        )
    column = rows[:, party].astype(np.float64)
    if not column.any():
        return None
    solved = np.linalg.lstsq((rows @ rows.T).astype(np.float64), column, rcond=1e-9)
    factors: F64 = solved[0].astype(np.float64)
    leverage = float(column @ factors)
    return Estimate(factors / leverage, leverage)


def log_ratio(seen: F64, shift: float, std: float, rate: float) -> F64:
    """Return the canary's log likelihood ratio log((1 - q) + q N(shift) / N(0)), in the shape of ``seen``.

    Args:
        seen: estimated changes of the canary's coordinate.
        shift: change by a drawn canary.
        std: standard deviation of the noise, same unit, > 0.
        rate: q, sampling rate, in (0, 1].

    Raises:
        UsageError: a parameter out of range.
    """
    if not (std > 0 and 0 < rate <= 1):
        raise UsageError(f"std must be above 0 and rate in (0, 1], found {std} and {rate}")
    exponent = shift * (seen - shift / 2) / std**2 + math.log(rate)
    return exponent if rate == 1 else np.logaddexp(exponent, math.log1p(-rate))
