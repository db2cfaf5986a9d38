"""The two noise laws on the integers, in rational brackets proved to hold the true values.

Both are symmetric around 0. Up to a common factor their probabilities are w_0 = 1 and w_k = w_(k-1) * r_k,
with a ratio r_k that falls as k grows:

- ``discrete-gaussian`` with parameter s: r_k = exp(-(2k - 1) / (2 s^2)) (Canonne et al. 2020, arXiv
  2004.00010). Its variance is below s^2, for s >= 4 by a relative 10^-130 at most.
- ``skellam`` with variance s^2, the difference of two Poisson variables of mean s^2 / 2: r_k = I_k(s^2) /
  I_(k-1)(s^2), modified Bessel functions (Agarwal et al. 2021, arXiv 2110.04995).

Integers in units of 2^-192 are rounded down for one bound and up for the other: no bound rests on an
estimate.
"""

import math
from fractions import Fraction
from typing import Literal, NamedTuple

from securefl.base.errors import UsageError

NoiseLaw = Literal["skellam", "discrete-gaussian"]

PRECISION = 192
"""Binary digits after the point."""

_ONE = 1 << PRECISION


class Weights(NamedTuple):
    """Brackets of w_0, w_1, ... in units of 2^-192: ``low[k] <= w_k <= high[k]``."""

    low: list[int]
    high: list[int]
    beyond: int
    """Upper bound on the sum of all w_k with k >= ``len(low)``."""


def weights(law: NoiseLaw, std: float) -> Weights:
    """Return brackets of the law's weights for k up to 14 ``std`` + 64.

    The rest is less than 2^-130 of the total. Takes about 0.1 s for ``std`` = 4096.

    Args:
        law: the noise law.
        std: standard deviation s >= 1, steps, taken as the exact value of the float.

    Raises:
        UsageError: ``std`` below 1 or not finite.
    """
    if not (math.isfinite(std) and std >= 1):
        raise UsageError(f"std, a standard deviation in steps, must be finite and at least 1, found {std}")
    variance = Fraction(std) ** 2
    count = math.ceil(14 * std) + 64
    ratios = _gaussian_ratios if law == "discrete-gaussian" else _skellam_ratios
    lows, highs = ratios(variance, count)
    low, high = [_ONE], [_ONE]
    for below, above in zip(lows, highs, strict=True):
        low.append(low[-1] * below >> PRECISION)
        high.append(_up(high[-1] * above))
    # The ratios decrease, so a geometric series with the last one bounds the rest.
    last = highs[-1]
    return Weights(low, high, -(-high[-1] * last // (_ONE - last)))


def _gaussian_ratios(variance: Fraction, count: int) -> tuple[list[int], list[int]]:
    low, high = _exp_minus(1 / (2 * variance))
    low_square, high_square = low * low >> PRECISION, _up(high * high)
    lows, highs = [low], [high]
    for _ in range(count - 1):
        lows.append(lows[-1] * low_square >> PRECISION)
        highs.append(_up(highs[-1] * high_square))
    return lows, highs


def _skellam_ratios(variance: Fraction, count: int) -> tuple[list[int], list[int]]:
    """Return brackets of r_k = 1 / (2 k / s^2 + r_(k+1)), backwards from 0 <= r <= 1 beyond ``count``.

    The recurrence of the Bessel functions (NIST DLMF 10.29.1), divided by I_k. One step shrinks a bracket by
    r_k^2, so the wide bracket at the start becomes negligible.
    """
    step = 2 * _ONE * variance.denominator // variance.numerator
    start = count + 4 * math.isqrt(math.ceil(variance)) + 64
    below, above = 0, _ONE
    lows, highs = [], []
    square = _ONE << PRECISION
    for k in range(start, 0, -1):
        below, above = square // (k * (step + 1) + above), -(-square // (k * step + below))
        lows.append(below)
        highs.append(above)
    return lows[: -count - 1 : -1], highs[: -count - 1 : -1]


def _exp_minus(x: Fraction) -> tuple[int, int]:
    """Return a bracket of exp(-x), 0 <= x <= 1/2, by its alternating series."""
    scaled = x.numerator * _ONE // x.denominator
    total, term, sign, terms = _ONE, _ONE, 1, 0
    while term:
        terms += 1
        sign = -sign
        term = (term * scaled >> PRECISION) // terms
        total += sign * term
    # Every floored term is too small by less than 4 units; the truncated rest is below the last term.
    slack = 4 * terms + 4
    return total - slack, total + slack


def _up(product: int) -> int:
    return -(-product >> PRECISION)


MIN_VARIANCE = 16.0
"""Smallest variance, steps^2: noise of 4 steps."""


def mu_slack(variance: float) -> float:
    """Return the relative increase of mu that covers integer noise of this variance: sqrt(1 + 3.5 / V) - 1.

    A Skellam variable of variance V hides an integer shift D, by Renyi divergences of any integer order a >
    1, as well as Gaussian noise does up to

        a D^2 / (2 V) + ((2a - 1) D^2 + 6 D) / (4 V^2)  <=  a D^2 / (2 V) * (1 + 3.5 / V)

    (Agarwal et al. 2021, arXiv 2110.04995, on shifted Skellam laws; D <= D^2). A discrete Gaussian has no
    such cost (Canonne et al. 2020, arXiv 2004.00010). For loss distributions the slack is no theorem. For
    hockey-stick divergences of single integer shifts a third of it is enough
    (``tests/unit/privacy/test_discrete.py``). Vectors, sampled batches and any number of steps preserve their
    order.

    ``variance`` is in steps^2; below 16 it is a UsageError. 10 % at 4 steps, 0.04 % at 64.
    """
    if not variance >= MIN_VARIANCE:
        raise UsageError(f"variance of integer noise must be at least {MIN_VARIANCE}, found {variance}")
    return math.expm1(0.5 * math.log1p(3.5 / variance))
