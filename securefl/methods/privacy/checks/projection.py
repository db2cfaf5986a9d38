"""Projection check: distance of a sum along a known direction, against noise and an allowed signal.

All other checks look at the coordinates of a sum as a bag of numbers. A party may therefore draw its noise
honestly and then *sort* it: the largest values where a direction of its choice is largest. Nothing changes
in the bag, sorting is cheap, and the party has placed a vector of the noise's norm, s sqrt(d), along that
direction. Xiang et al. 2023 (guideline 1) hold that finding a particular order takes O(d!); it takes a sort.

Along a given direction noise has a standard deviation of only sqrt(n) s, so that such a vector stands out, if
the direction is known. Last round's sums or global step are candidates: an attack that pulls the same way in
every round is in them. One that changes its direction is not found.
"""

import math

import numpy as np

from securefl.base.arrays import F64, I64, expect
from securefl.base.errors import UsageError
from securefl.methods.privacy.checks import verdict
from securefl.methods.privacy.checks.null import Null, check_values


def projection(values: I64, reference: F64, null: Null, alpha: float) -> verdict.CheckVerdict:
    """Whether the sum's component along a direction is one that noise and an allowed signal may have.

    The signal's component is at most the allowance. The noise's tail is bounded by Chernoff's method: a
    Skellam variable of variance v has E exp(l Z) = exp(v (cosh l - 1)), a discrete Gaussian less, and the
    largest coordinate of the direction bounds the sum of these.

    Args:
        values: the sum, i64 ``(d,)``, steps.
        reference: the direction, f64 ``(d,)``, of any length but 0. It must not depend on the noise in
            ``values``: take earlier rounds, or sums that share no party *and* none of whose parties saw this
            one.
        null: what is honest.
        alpha: false-alarm level.

    Raises:
        UsageError: the wrong dtype or shape, too few coordinates, no direction, or no such level.
    """
    dim = check_values(values)
    verdict.check_level(alpha)
    expect(reference, "reference", np.float64, (dim,))
    peak = float(np.abs(reference).max())
    if not (math.isfinite(peak) and peak > 0):
        raise UsageError(f"a direction has finite coordinates that are not all 0; the largest is {peak}")
    scaled = reference / peak
    length = math.sqrt(float(np.square(scaled).sum()))
    along = abs(float((values * scaled).sum())) / length
    beyond, steepest = along - null.allowance, 1 / length
    limit = null.allowance + _quantile(alpha, null.variance, steepest)
    return verdict.judge(
        "projection",
        alpha,
        _tail(beyond, null.variance, steepest),
        statistic=along,
        threshold=limit,
        reason=(
            f"{along / null.sum_std:.2f} standard deviations of the noise along the reference,"
            f" passes up to {limit / null.sum_std:.2f}"
        ),
    )


def _tail(distance: float, variance: float, steepest: float) -> float:
    """At least P(|sum of u_i Z_i| >= ``distance``), u of norm 1 and no coordinate above ``steepest``."""
    if distance <= 0:
        return 1.0
    x = distance * steepest / variance
    # t asinh(x) / m - v (sqrt(1 + x^2) - 1) / m^2, which for small x is t^2 / 2 v and loses its digits.
    if x < 1e-3:
        exponent = distance * distance / (2 * variance) * (1 - x * x / 12)
    else:
        exponent = variance / steepest**2 * (x * math.asinh(x) - (math.hypot(1, x) - 1))
    return min(1.0, 2 * math.exp(-exponent))


def _quantile(alpha: float, variance: float, steepest: float) -> float:
    """The distance at which :func:`_tail` is ``alpha``."""
    from scipy import optimize  # noqa: PLC0415 - a process without checks need not wait for it

    high = 100 * math.sqrt(variance)
    if _tail(high, variance, steepest) > alpha:
        return high
    return float(optimize.brentq(lambda distance: _tail(distance, variance, steepest) - alpha, 0.0, high))
