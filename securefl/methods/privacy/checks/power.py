"""Power of the noise floor: how surely it finds a sum that lacks noise.

A signal adds energy, and so hides missing noise; how much there is nobody knows before the run. So power is
said without any signal, which is the best case, with the signal up to which it still holds.
"""

from __future__ import annotations

import math

from securefl.methods.privacy.checks import energy
from securefl.methods.privacy.checks.null import Null


def floor_power(null: Null, dim: int, alpha: float, missing: float, signal: float = 0.0) -> float:
    """The probability that the noise floor rejects a sum.

    Args:
        null: what is honest.
        dim: d, coordinates.
        alpha: the check's false-alarm level.
        missing: variance that the sum lacks in each coordinate, steps^2, from 0 to all that is agreed.
        signal: L2 norm of all members' signals together, steps.
    """
    threshold, left = energy.least_energy(null, dim, alpha), null.variance - missing
    if not left > 0:
        return float(signal**2 < threshold)
    return energy.energy_below(null.law, left, dim, math.floor(signal**2), threshold)


def hidden_by(null: Null, dim: int, alpha: float, missing: float, power: float) -> float | None:
    """The largest signal, L2 norm in steps, with which the noise floor still rejects with this probability.

    To a thousandth of what signals are allowed, which it does not exceed; None where even a sum without a
    signal is rejected more seldom.
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
