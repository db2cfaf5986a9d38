"""Projection check: length of a sum along a known direction, against noise and an allowed signal.

All other checks ignore the order of coordinates, so a party may *sort* its honest noise to point along a
direction: a vector of norm s sqrt(d). (Xiang et al. 2023, guideline 1, hold that this takes O(d!).) Along a
given direction noise has a standard deviation of only sqrt(n) s. The last round's sums or global step reveal
an attack that pulls the same way in every round, but not one that changes its direction.
"""

import math

import numpy as np

from securefl.base.arrays import F64, I64, expect
from securefl.base.errors import UsageError
from securefl.methods.privacy.checks import verdict
from securefl.methods.privacy.checks.null import Null, check_values


def projection(values: I64, reference: F64, null: Null, alpha: float) -> verdict.CheckVerdict:
    """Check the sum's component along a direction against noise and an allowed signal.

    The signal's component is at most the allowance. Chernoff's method bounds the tail of the noise: a Skellam
    variable of variance v has E exp(l Z) = exp(v (cosh l - 1)), a discrete Gaussian less.

    ``values`` are i64 ``(d,)``, steps, ``alpha`` is the false-alarm level. ``reference`` is the direction,
    f64 ``(d,)``, not 0, independent of the noise in ``values``. Take it from earlier rounds, or from sums
    that share no party *and* whose parties did not see this one. Invalid arguments raise a UsageError.
    """
    dim = check_values(values)
    verdict.check_level(alpha)
    expect(reference, "reference", np.float64, (dim,))
    peak = float(np.abs(reference).max())
    if not (math.isfinite(peak) and peak > 0):
        raise UsageError(
            f"reference, a direction, must have finite coordinates that are not all 0; its largest is {peak}"
        )
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
    """Return an upper bound on P(|sum of u_i Z_i| >= ``distance``), |u| = 1, max u_i = ``steepest``."""
    if distance <= 0:
        return 1.0
    x = distance * steepest / variance
    # t asinh(x) / m - v (sqrt(1 + x^2) - 1) / m^2; for small x it is t^2 / 2 v, where the digits cancel.
    if x < 1e-3:
        exponent = distance * distance / (2 * variance) * (1 - x * x / 12)
    else:
        exponent = variance / steepest**2 * (x * math.asinh(x) - (math.hypot(1, x) - 1))
    return min(1.0, 2 * math.exp(-exponent))


def _quantile(alpha: float, variance: float, steepest: float) -> float:
    """Return the distance at which :func:`_tail` is ``alpha``."""
    from scipy import optimize  # noqa: PLC0415 - a process without checks need not wait for it

    high = 100 * math.sqrt(variance)
    if _tail(high, variance, steepest) > alpha:
        return high
    return float(optimize.brentq(lambda distance: _tail(distance, variance, steepest) - alpha, 0.0, high))
