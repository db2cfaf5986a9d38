"""Distribution check: coordinates against the *discrete* law of the sum, for the actual survivors.

Kolmogorov-Smirnov distances between the empirical distribution function and the law on the integers. The
p-values are those of Dvoretzky, Kiefer, Wolfowitz and Massart, which hold for discrete laws as well; for
coordinates with different signals they hold in the limit of many coordinates (the limit process has then a
smaller covariance).

A signal moves the expected distribution function. By how much at most is subtracted first:

- of the coordinates themselves: P(Z + mu <= k) differs from P(Z <= k) by at most |mu| max P(Z = j). Averaged
  over d coordinates that is max P(Z = j) min(B / sqrt(d), B^2 / d), since integers have |mu| <= mu^2. A
  constant shift attains it.
- of their **magnitudes**: there the first order cancels. P(|Z + mu| <= k) is at most P(|Z| <= k), and smaller
  by at most mu^2 max (P(Z = j) - P(Z = j + 1)), because its second differences in mu are no less than
  -2 max (...). So the allowance is of the order of B^2 / d instead of B / sqrt(d): next to nothing where d is
  large.

Hence two checks: magnitudes find noise of the wrong size or shape, coordinates what is not symmetric.
"""

import math

import numpy as np

from securefl.base.arrays import F64, I64
from securefl.methods.privacy.checks import tails, verdict
from securefl.methods.privacy.checks.null import Null, SumLaw, check_values, sum_law


def magnitudes(values: I64, null: Null, alpha: float) -> verdict.CheckVerdict:
    """Whether the magnitudes of the coordinates follow the law.

    The statistic is the larger of the two one-sided distances, the allowance subtracted on the side on which
    magnitudes are too large.

    Args:
        values: the sum, i64 ``(d,)``, steps.
        null: what is honest.
        alpha: false-alarm level.

    Raises:
        UsageError: the wrong dtype or shape, too few coordinates, or no such level.
    """
    dim = check_values(values)
    verdict.check_level(alpha)
    law = sum_law(null)
    gap = np.cumsum(law.magnitudes(values)[:-1]) / dim - (1 - 2 * law.from_on[1:])
    allowed = magnitude_allowance(null, dim)
    return _verdict("magnitudes", float(gap.max()), float(-gap.min()) - allowed, dim, alpha, allowed)


def coordinates(values: I64, null: Null, alpha: float) -> verdict.CheckVerdict:
    """Whether the coordinates follow the law.

    The statistic is the distance with the allowance subtracted.

    Args:
        values: the sum, i64 ``(d,)``, steps.
        null: what is honest.
        alpha: false-alarm level.

    Raises:
        UsageError: the wrong dtype or shape, too few coordinates, or no such level.
    """
    dim = check_values(values)
    verdict.check_level(alpha)
    law = sum_law(null)
    gap = np.cumsum(law.counts(values)[:-1]) / dim - _cumulative(law)
    allowed = coordinate_allowance(null, dim)
    over, under = float(gap.max()) - allowed, float(-gap.min()) - allowed
    return _verdict("coordinates", over, under, dim, alpha, allowed)


def magnitude_allowance(null: Null, dim: int) -> float:
    """At most so much does an allowed signal lower the mean of P(|X_i| <= k), for any k."""
    law, energy = sum_law(null), null.signal_energy
    steepest = float(-np.diff(law.mass).min())
    return min(steepest * energy / dim, coordinate_allowance(null, dim))


def coordinate_allowance(null: Null, dim: int) -> float:
    """At most so much does an allowed signal move the mean of P(X_i <= k), either way, for any k."""
    law, energy = sum_law(null), null.signal_energy
    return float(law.mass[0]) * min(math.sqrt(energy / dim), energy / dim)


def _cumulative(law: SumLaw) -> F64:
    """P(Z <= k) for k = -L-1 ... L."""
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
