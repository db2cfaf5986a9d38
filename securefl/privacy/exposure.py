"""How far the sums that are opened tell a party's two neighbouring updates apart: one number, mu.

Gaussian noise on sums is a Gaussian-DP mechanism (Dong et al. 2022): it hides no worse and no better than one
draw from N(0, 1) hides a shift by mu. All sums that contain the same update are one release with one mu; it
is taken *before* amplification by sampling, because all of them were made from the same batch.

With L2 sensitivity Delta and noise of standard deviation s from each party, mu^2 = (Delta / s)^2 * exposure:

- fresh noise in every opening: the exposure is the sum over openings of 1 / h, for h survivors whose noise
  the adversary does not know (:func:`fresh_exposure`);
- noise added once and opened several times: it is the party's leverage, from 1 / h for one opening to 1 for
  a party whose noisy update can be computed from the sums (:func:`leverage`).

Exact for continuous Gaussian noise. Discrete noise needs steps that are small against s, and a slack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from securefl.arrays import F64
from securefl.errors import UsageError

MOST_UNEQUAL = 1e8
"""Ratio of positive variances up to which doubles tell small noises from rounding."""

_RANK_TOLERANCE = 1e-9
"""Singular values below it, of the largest, are rounding."""


def fresh_exposure(survivors: Iterable[int]) -> float:
    """Exposure of an update that is opened once per entry, each time under fresh noise.

    Args:
        survivors: h >= 1 of each opening that contains the update: members whose noise the adversary does
            not know.

    Raises:
        UsageError: an opening without any such member, or no opening.
    """
    counts = list(survivors)
    if not counts or min(counts) < 1:
        raise UsageError(f"openings with {counts} unknown noises hide nothing or are none")
    return math.fsum(1 / count for count in counts)


def leverage(rows: npt.NDArray[np.integer], variances: F64, party: int) -> float:
    """Exposure of a party whose noise is added once: a_i^T (A Sigma A^T)^+ a_i, times its own variance.

    It is the diagonal element i of the projection on the row space of A Sigma^(1/2).

    Args:
        rows: A, ``(openings, parties)``, 1 where the opening contains the party, else 0.
        variances: diagonal of Sigma, ``(parties,)``, >= 0: the variance of each party's noise that the
            adversary does not know, in any unit; 0 for colluders and for parties that add none. The largest
            is at most ``MOST_UNEQUAL`` times the smallest that is positive.
        party: i, column of ``rows``. The result is in units of ``variances[party]``, so that
            mu = Delta / s_i * sqrt(leverage); it is 0 for a party that is in no opening.

    Returns:
        In [0, 1]: 1 where some combination of the sums holds no unknown noise but the party's own. With equal
        variances and without colluders it is at least 1/h of each opening that the party is in.

    Raises:
        UsageError: wrong shapes, entries other than 0 and 1, a party without noise of its own, or variances
            too unequal for the rank to be known.
    """
    if rows.ndim != 2 or variances.shape != (rows.shape[1],) or not 0 <= party < rows.shape[1]:
        raise UsageError(f"rows {rows.shape}, variances {variances.shape} and party {party} do not fit")
    if not np.isin(rows, (0, 1)).all():
        raise UsageError("a row of openings holds 0 and 1 only")
    if not (np.isfinite(variances).all() and (variances >= 0).all() and variances[party] > 0):
        raise UsageError("variances are finite and not negative, and the party's own is positive")
    positive = variances[variances > 0]
    if positive.max() > MOST_UNEQUAL * positive.min():
        raise UsageError(
            f"variances from {positive.min():g} to {positive.max():g}: beyond a ratio of {MOST_UNEQUAL:g} the"
            " rank of the sums' noise is not known in doubles"
        )
    if not rows[:, party].any():
        return 0.0
    _, singular, basis = np.linalg.svd(rows * np.sqrt(variances / positive.max()), full_matrices=False)
    seen = basis[singular > _RANK_TOLERANCE * singular[0], party]
    return min(1.0, float(seen @ seen))
