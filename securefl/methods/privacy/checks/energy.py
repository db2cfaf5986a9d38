"""Energy checks: the squared norm of a sum against its members' noise plus an allowed signal.

The expected energy n s^2 d of the noise is subtracted first. A signal of unknown size may hide missing noise,
so the power of the noise floor is stated without a signal, with the largest signal up to which it holds.
"""

import functools
import math

import numpy as np

from securefl.base.arrays import I64
from securefl.methods.privacy.checks import tails, verdict
from securefl.methods.privacy.checks.null import Null, check_values
from securefl.methods.privacy.laws import NoiseLaw


def noise_floor(values: I64, null: Null, alpha: float) -> verdict.CheckVerdict:
    """Check that the sum has at least the energy of its members' noise.

    With X = mu + Z, each |X_i| is stochastically at least |Z_i|, because the law is symmetric and unimodal.
    So the p-value is that of noise alone. The statistic is the missing energy n s^2 d - |X|^2.

    ``values`` are i64 ``(d,)``, steps, ``alpha`` is the false-alarm level; invalid ones raise a UsageError.
    """
    dim = check_values(values)
    verdict.check_level(alpha)
    expected = dim * null.variance
    energy = _energy(values)
    p_value = _tails(null.law, null.variance, dim, 0, energy)[0]
    threshold = expected - least_energy(null, dim, alpha)
    missing = expected - energy
    return verdict.judge(
        "noise floor",
        alpha,
        p_value,
        statistic=missing,
        threshold=threshold,
        reason=(
            f"energy {_share(-missing, expected)} against the noise of {null.survivors} parties,"
            f" passes down to {_share(-threshold, expected)}"
        ),
    )


def excess_energy(values: I64, null: Null, alpha: float) -> verdict.CheckVerdict:
    """Check that the sum has at most the energy of its members' noise and an allowed signal.

    The statistic is |X|^2 - n s^2 d. The worst signal uses the whole allowance B: it adds B^2 to the mean and
    4 B^2 n s^2 to the variance, however it spreads (up to the third cumulant). Arguments and errors are as
    for :func:`noise_floor`.
    """
    dim = check_values(values)
    verdict.check_level(alpha)
    expected = dim * null.variance
    energy, signal = _energy(values), null.signal_energy
    p_value = _tails(null.law, null.variance, dim, signal, energy)[1]
    threshold = _quantile(null, dim, signal, alpha, upper=True) - expected
    return verdict.judge(
        "excess energy",
        alpha,
        p_value,
        statistic=energy - expected,
        threshold=threshold,
        reason=(
            f"energy {_share(energy - expected, expected)} against the noise of {null.survivors} parties,"
            f" passes up to {_share(threshold, expected)}"
        ),
    )


def _energy(values: I64) -> float:
    # numpy's pairwise sum has the same bits for any number of threads, unlike a BLAS product.
    return float(np.square(values.astype(np.float64)).sum())


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:+.2f} %"


def least_energy(null: Null, dim: int, alpha: float) -> float:
    """Return the smallest energy, steps^2, with which a sum of ``dim`` coordinates passes the noise floor."""
    return _quantile(null, dim, 0, alpha, upper=False)


def energy_below(law: NoiseLaw, variance: float, dim: int, signal: int, energy: float) -> float:
    """Return P(|mu + Z|^2 <= ``energy``) with |mu|^2 = ``signal`` and noise Z, all in steps^2."""
    return _tails(law, variance, dim, signal, energy)[0]


def _tails(law: NoiseLaw, v: float, dim: int, signal: int, energy: float) -> tuple[float, float]:
    """Return P(|mu + Z|^2 <= ``energy``) and P(>=), with |mu|^2 = ``signal`` and variance ``v``, in steps^2.

    Uses a shifted gamma law with the same first three cumulants (Pearson 1959; exact for Gaussian noise
    without a signal). Worst case, 64 coordinates with 4 steps of Skellam noise: 2 % too small at 10^-3, 16 %
    at 10^-6; at most 1 % from 1,000 coordinates on.
    """
    shape, scale, first = _shifted_gamma(law, v, dim, signal)
    return tails.gamma_tails(shape, (energy - first) / scale + shape)


def _shifted_gamma(law: NoiseLaw, v: float, dim: int, signal: int) -> tuple[float, float, float]:
    """Return shape, scale and mean of the gamma law of :func:`_tails`."""
    # Fourth and sixth cumulants of the noise: for Skellam the variance, for a Gaussian 0.
    fourth, sixth = (v, v) if law == "skellam" else (0.0, 0.0)
    moment_4 = 3 * v * v + fourth
    moment_6 = 15 * v**3 + 15 * v * fourth + sixth
    first = dim * v + signal
    second = dim * (moment_4 - v * v) + 4 * signal * v
    third = dim * (moment_6 - 3 * moment_4 * v + 2 * v**3) + 12 * signal * (moment_4 - v * v)
    return 4 * second**3 / third**2, third / (2 * second), first


@functools.lru_cache(maxsize=64)
def _quantile(null: Null, dim: int, signal: int, alpha: float, *, upper: bool) -> float:
    """Return the energy at which the upper or lower tail is ``alpha``."""
    shape, scale, first = _shifted_gamma(null.law, null.variance, dim, signal)
    return max(0.0, (tails.gamma_quantile(shape, alpha, upper=upper) - shape) * scale + first)


def floor_power(null: Null, dim: int, alpha: float, missing: float, signal: float = 0.0) -> float:
    """Return the probability that the noise floor at level ``alpha`` rejects a sum of ``dim`` coordinates.

    Each coordinate lacks a variance of ``missing``, steps^2, up to the agreed one. ``signal`` is the L2 norm
    of all members' signals together, steps.
    """
    threshold, left = least_energy(null, dim, alpha), null.variance - missing
    if not left > 0:
        return float(signal**2 < threshold)
    return energy_below(null.law, left, dim, math.floor(signal**2), threshold)


def hidden_by(null: Null, dim: int, alpha: float, missing: float, power: float) -> float | None:
    """Return the largest signal, L2 norm in steps, with which the noise floor rejects with this ``power``.

    Each coordinate lacks a variance of ``missing``, steps^2. The result is exact to a thousandth of the
    allowance, which bounds it. None if the power is smaller without a signal.
    """
    if floor_power(null, dim, alpha, missing) < power:
        return None
    low, high = 0.0, null.allowance
    if floor_power(null, dim, alpha, missing, high) >= power:
        return high
    while high - low > 1e-3 * null.allowance:
        middle = (low + high) / 2
        if floor_power(null, dim, alpha, missing, middle) >= power:
            low = middle
        else:
            high = middle
    return low
