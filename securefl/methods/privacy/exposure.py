"""Exposure of a party's update by the opened sums: its distinguishability mu^2, for sensitivity 1.

Gaussian noise is a Gaussian-DP mechanism (Dong et al. 2022): it hides a change as well as one draw from N(0,
1) hides a shift by mu. All sums with one update are one release: mu is taken *before* amplification by
sampling, since they stem from the same batch. With L2 sensitivity Delta and noise of standard deviation s
from each party, mu^2 = (Delta / s)^2 * exposure. This is exact for continuous noise; discrete noise needs
steps that are small against s, and a slack.
"""

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.base.errors import UsageError

MOST_UNEQUAL = 1e8
"""Largest ratio of positive variances at which doubles distinguish small noise from rounding."""

_RANK_TOLERANCE = 1e-9
"""Relative bound below which singular values count as rounding errors."""


def fresh_exposure(survivors: Iterable[int]) -> float:
    """Return the exposure of an update that is opened several times under fresh noise: the sum of 1 / h.

    Args:
        survivors: h >= 1 of each opening: members whose noise the adversary does not know.

    Raises:
        UsageError: no opening, or an opening without any such member.
    """
    counts = list(survivors)
    if not counts or min(counts) < 1:
        raise UsageError(f"survivors must have 1 or more entries, each at least 1; found {counts}")
    return math.fsum(1 / count for count in counts)


def exposures(
    rows: npt.NDArray[np.integer], once: F64, fresh: F64 | None = None, *, rank: int | None = None
) -> F64:
    """Return every party's exposure for noise of any variances: a_i^T (A V A^T + F)^+ a_i, sensitivity 1.

    The adversary is assumed to know the other parties' updates. Noise is independent between parties. The
    exposure is the squared shift, in standard deviations, by which a change of 1 in the update moves the
    least favourable combination of sums.

    Args:
        rows: A, ``(openings, parties)``, 1 where the opening contains the party, else 0.
        once: diagonal of V, ``(parties,)``, >= 0: variance of each party's noise that is the same in all
            openings and unknown to the adversary. Positive variances, those of ``fresh`` included, differ by
            at most a factor of ``MOST_UNEQUAL``.
        fresh: diagonal of F, ``(openings,)``, >= 0: variance of all noise drawn for each opening alone;
            default 0.
        rank: exact rank of A's columns with noise of their own, if nothing is fresh; default: small singular
            values count as 0.

    Returns:
        ``(parties,)``, at most 1 / variance for a party with noise of its own; infinite if some combination
        of sums contains the party and no noise; 0 if no opening contains it.

    Raises:
        UsageError: wrong shapes, entries other than 0 and 1, or variances that are negative or too unequal.
    """
    openings = rows.shape[0] if rows.ndim == 2 else 0
    each = np.zeros(openings) if fresh is None else fresh
    if rows.ndim != 2 or once.shape != (rows.shape[1],) or each.shape != (openings,):
        raise UsageError(
            "rows must be a matrix with one entry of once per column, one of fresh per row; found"
            f" {rows.shape}, {once.shape}, {each.shape}"
        )
    if not np.isin(rows, (0, 1)).all():
        raise UsageError("rows must hold 0 and 1 only")
    variances = np.concatenate([once, each])
    if not (np.isfinite(variances).all() and (variances >= 0).all()):
        raise UsageError("variances of noise must be finite and not negative")
    positive = variances[variances > 0]
    largest = positive.max(initial=0.0)
    if largest > MOST_UNEQUAL * positive.min(initial=math.inf):
        raise UsageError(
            f"cannot compute exposures: variances of noise from {positive.min():g} to {largest:g}"
            f" differ by more than {MOST_UNEQUAL:g} times; doubles cannot hold their rank"
        )
    opened = rows.any(axis=0)
    found: F64 = np.where(opened, math.inf, 0.0)
    if not largest:
        return found
    # One column per independent noise; the covariance of the noise in the sums is M M^T.
    noises = np.hstack([rows, np.eye(openings)]) * np.sqrt(variances / largest)
    left, singular, right = np.linalg.svd(noises, full_matrices=False)
    counted = int((singular > _RANK_TOLERANCE * singular[0]).sum()) if rank is None else rank
    left, singular, right = left[:, :counted], singular[:counted], right[:counted]
    own = opened & (once > 0)
    # A party with noise of its own has a_i in the range: a projection, at most 1, without division.
    projected = np.square(right[:, : once.size][:, own]).sum(axis=0).clip(0.0, 1.0)
    found[own] = projected / once[own]
    for party in np.flatnonzero(opened & ~own).tolist():
        column = rows[:, party].astype(np.float64)
        seen = left.T @ column
        if np.linalg.norm(column - left @ seen) <= _RANK_TOLERANCE * np.linalg.norm(column):
            found[party] = np.square(seen / singular).sum() / largest
    return found


def leverage(rows: npt.NDArray[np.integer], variances: F64, party: int) -> float:
    """Return the exposure of a party whose noise is added once, in units of its own variance.

    It is the diagonal element i (``party``) of the projection on the row space of A V^(1/2). A is ``rows``,
    ``(openings, parties)``, V the diagonal matrix of ``variances``, ``(parties,)``, in any unit. It is in [0,
    1]: 1 if some combination of the sums holds no unknown noise but the party's own. With equal variances and
    without colluders it is at least 1/h of each opening with the party. mu = Delta / s_i * sqrt(leverage).

    Raises:
        UsageError: as :func:`exposures`, or a party without noise of its own.
    """
    if not 0 <= party < variances.size or not variances[party] > 0:
        raise UsageError(
            f"party must have noise of its own: found party {party} of {variances.size} with variance"
            " 0 or out of range"
        )
    return min(1.0, float(variances[party] * exposures(rows, variances)[party]))
