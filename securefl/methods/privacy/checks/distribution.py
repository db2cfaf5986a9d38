"""Distribution checks: coordinates against the *discrete* law of the sum, for the actual survivors.

The statistics are Kolmogorov-Smirnov distances with p-values by Dvoretzky, Kiefer, Wolfowitz and Massart,
valid for discrete laws; with different signals in the limit of many coordinates. The largest shift of the
expected distribution function by an allowed signal is subtracted:

- **coordinates** (detects asymmetry): P(Z + mu <= k) moves by at most |mu| max P(Z = j). The mean over d
  coordinates is max P(Z = j) min(B / sqrt(d), B^2 / d), since integers have |mu| <= mu^2.
- **magnitudes** (detects noise of the wrong size or shape): P(|Z + mu| <= k) is at most P(|Z| <= k). It is
  smaller by at most mu^2 max (P(Z = j) - P(Z = j + 1)), since its second differences in mu are at least -2
  max (...). So the allowance is of order B^2 / d.
"""

import math

import numpy as np

from securefl.base.arrays import F64, I64
from securefl.methods.privacy.checks import tails, verdict
from securefl.methods.privacy.checks.null import Null, SumLaw, check_values, sum_law


def magnitudes(values: I64, null: Null, alpha: float) -> verdict.CheckVerdict:
    """Check the magnitudes of the coordinates of a sum against the law.

    The statistic is the larger one-sided distance, less the allowance on the side of too large magnitudes.
    The values are i64 ``(d,)``, steps, ``alpha`` is the false-alarm level; invalid ones raise a UsageError.
    """
    dim = check_values(values)
    verdict.check_level(alpha)
    law = sum_law(null)
    gap = np.cumsum(law.magnitudes(values)[:-1]) / dim - (1 - 2 * law.from_on[1:])
    allowed = magnitude_allowance(null, dim)
    return _verdict("magnitudes", float(gap.max()), float(-gap.min()) - allowed, dim, alpha, allowed)


def coordinates(values: I64, null: Null, alpha: float) -> verdict.CheckVerdict:
    """Check the coordinates of a sum against the law. The statistic is the distance less the allowance.

    Arguments and errors are as for :func:`magnitudes`.
    """
    dim = check_values(values)
    verdict.check_level(alpha)
    law = sum_law(null)
    gap = np.cumsum(law.counts(values)[:-1]) / dim - _cumulative(law)
    allowed = coordinate_allowance(null, dim)
    over, under = float(gap.max()) - allowed, float(-gap.min()) - allowed
    return _verdict("coordinates", over, under, dim, alpha, allowed)


def magnitude_allowance(null: Null, dim: int) -> float:
    """Return the most by which an allowed signal lowers the mean of P(|X_i| <= k), for any k."""
    law, energy = sum_law(null), null.signal_energy
    steepest = float(-np.diff(law.mass).min())
    return min(steepest * energy / dim, coordinate_allowance(null, dim))


def coordinate_allowance(null: Null, dim: int) -> float:
    """Return the most by which an allowed signal moves the mean of P(X_i <= k) either way, for any k."""
    law, energy = sum_law(null), null.signal_energy
    return float(law.mass[0]) * min(math.sqrt(energy / dim), energy / dim)


def _cumulative(law: SumLaw) -> F64:
    """Return P(Z <= k) for k = -L-1 ... L."""
    below: F64 = law.from_on[::-1]  # P(Z <= -k) = P(Z >= k), k = L+1 ... 0
    return np.concatenate([below, 1 - law.from_on[2:]])


def _verdict(
    check: str, over: float, under: float, dim: int, alpha: float, allowed: float
) -> verdict.CheckVerdict:
    distance, threshold = max(over, under), tails.band_width(alpha, dim)
    side = "small" if check == "magnitudes" and over > under else "large"
    where = f"too {side}, " if check == "magnitudes" else ""
    return verdict.judge(
        check,
        alpha,
        tails.band_tail(distance, dim),
        statistic=distance,
        threshold=threshold,
        reason=(
            f"{where}distance {max(distance, 0.0):.5f} from the law beyond the {allowed:.5f} of a signal,"
            f" passes up to {threshold:.5f}"
        ),
    )
