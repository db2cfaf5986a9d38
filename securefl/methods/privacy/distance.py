"""The cost of sampled noise that differs from the law in the proof.

Privacy is proved for a law; a table draws from a law close to it. If all draws together are at statistical
distance tau from the proof's, an (epsilon, delta) guarantee holds with delta + (1 + e^epsilon) tau instead:
each of the two neighbouring inputs loses tau, one of them behind the factor e^epsilon.
"""

from __future__ import annotations

import math
from fractions import Fraction

from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy.table import NoiseTable

DELTA_SHARE = 100
"""The summed distance must stay below delta / 100."""


def summed_distance(table: NoiseTable, draws: int) -> Fraction:
    """At least the statistical distance of ``draws`` independent draws from the true law: it adds up.

    Args:
        table: the table.
        draws: all that the guarantee rests on: coordinates x releases x parties whose noise in a sum counts.

    Raises:
        UsageError: a negative number of draws.
    """
    if draws < 0:
        raise UsageError(f"{draws} draws")
    return draws * table.table_error


def check_distance(table: NoiseTable, draws: int, delta: float, path: str = "privacy.delta") -> Fraction:
    """The summed distance, refused unless it is below ``delta`` / 100.

    Args:
        table: the table.
        draws: as for :func:`summed_distance`.
        delta: of the guarantee, in (0, 1).
        path: the scenario's field to blame.

    Raises:
        ConfigError: the distance is not small enough, or ``delta`` is no such number.
    """
    if not 0 < delta < 1:
        raise ConfigError(path, f"delta lies between 0 and 1, not at {delta:g}")
    distance = summed_distance(table, draws)
    if distance * DELTA_SHARE >= Fraction(delta):
        raise ConfigError(
            path,
            f"{draws} draws of noise of {table.std:g} steps differ from its law by {float(distance):.2g}"
            f" in all, not less than delta / {DELTA_SHARE} = {delta / DELTA_SHARE:.2g}",
            "a coarser scale (the error of a draw grows with the steps), fewer rounds, or a larger delta",
        )
    return distance


def added_delta(distance: Fraction, epsilon: float) -> float:
    """The addition to delta at this ``epsilon``: (1 + e^epsilon) ``distance``.

    At ``distance`` = delta / 100 it is 8 % of delta at epsilon = 2, but 30 times delta at epsilon = 8.
    Infinite if it overflows.

    Raises:
        UsageError: ``epsilon`` is negative or not a number.
    """
    if not epsilon >= 0:
        raise UsageError(f"epsilon cannot be {epsilon}")
    if distance == 0:
        return 0.0
    return float(distance) * (1 + math.exp(epsilon)) if epsilon < 700 else math.inf
