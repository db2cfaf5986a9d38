"""Standard deviation of a column from its moments, with its error, and the smallest one that is resolved.

The variance is m - u^2, u and m the means of values and their squares as shares of the range. Errors dm, du
and dn of the words of both moments and of the n samples change it, to first order, by

    (dm - 2 u du - (m - 2 u^2) dn) / n.

Rounding is bounded by the sum of magnitudes; variances of the independent noises add up.
"""

import math
from dataclasses import dataclass

from securefl import scenario
from securefl.base.arrays import F64
from securefl.methods.metrics.metric_encoding import MetricWords

ROUNDED = 0.01
"""Relative error of a standard deviation by rounding, beyond which it is unresolved."""
NOISED = 0.1
"""Relative deviation of a standard deviation by noise, beyond which it is unresolved."""
DOUBLE = 2.0**-47
"""Error in double precision of means of squares of values from 0 to 1: sums of a million samples."""
CERTAIN = 4.0
"""Smallest number of samples, in standard deviations of its noise, for which first-order errors hold."""


@dataclass(frozen=True, slots=True)
class ColumnSpread:
    """Standard deviation of a column, as a share of the range."""

    std: float
    """0 if it is unresolved."""
    rounding: float
    """Bound on its error by rounding. If unresolved without noise: the smallest resolved value."""
    noise: float
    """Standard deviation by noise. If unresolved with noise: the smallest resolved value."""


def column_spread(words: MetricWords, block: F64) -> ColumnSpread:
    """Return the spread of a column, with the errors of all parties' words.

    ``block`` is a nonempty metric of kind ``column``, in samples, f64 ``(2 + bins,)``.
    """
    bins, samples = len(block) - scenario.MOMENTS, float(block[scenario.MOMENTS :].sum())
    sigma = words.deviation(words.parties)
    if samples <= CERTAIN * sigma * math.sqrt(bins):
        return ColumnSpread(0.0, 0.0, 0.5)
    mean, square = (min(max(float(moment) / samples, 0.0), 1.0) for moment in block[: scenario.MOMENTS])
    variance, by_count = square - mean**2, abs(square - 2 * mean**2)
    rounded = words.rounding(words.parties) * (1 + 2 * mean + bins * by_count) / samples + DOUBLE
    noised = sigma * math.sqrt(1 + 4 * mean**2 + bins * by_count**2) / samples
    least = max(rounded / (2 * ROUNDED), noised / (2 * NOISED))
    if variance < least:
        # The true variance may be larger than the computed one.
        resolved = min(math.sqrt(least + rounded + 3 * noised), 0.5)
        return ColumnSpread(0.0, 0.0, resolved) if sigma else ColumnSpread(0.0, resolved, 0.0)
    std = math.sqrt(variance)
    # A difference of roots is that of the squares over the sum of the roots.
    return ColumnSpread(std, rounded / (std + math.sqrt(variance - rounded)), noised / (2 * std))
