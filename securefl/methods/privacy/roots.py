"""Root finding for falling functions of a positive number, with few evaluations: each may cost a second."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple


def falling_root(
    over: Callable[[float], float],
    start: float,
    factor: float,
    tolerance: float,
    bounds: tuple[float, float],
) -> float | None:
    """A number x with over(x) <= 0 and over(x / (1 + ``tolerance``)) > 0; none near or within ``bounds``.

    Args:
        over: does not grow; infinite values are allowed.
        start: where to begin, within ``bounds``.
        factor: first step up or down, > 1; steps grow.
        tolerance: > 0, relative.
        bounds: lowest and highest number from which another step is taken.
    """
    bracket = _around(over, start, factor, bounds)
    return None if bracket is None else _narrow(over, bracket, tolerance).high


class _Bracket(NamedTuple):
    """The function is above 0 at ``low`` and not above it at ``high``."""

    low: float
    over_low: float
    high: float
    over_high: float


def _around(
    over: Callable[[float], float], start: float, factor: float, bounds: tuple[float, float]
) -> _Bracket | None:
    """A bracket, from ``start`` up or down in growing steps; none between the bounds."""
    here, value = start, over(start)
    while bounds[0] <= here <= bounds[1]:
        there = here * factor if value > 0 else here / factor
        beyond = over(there)
        if value > 0 >= beyond:
            return _Bracket(here, value, there, beyond)
        if beyond > 0 >= value:
            return _Bracket(there, beyond, here, value)
        here, value, factor = there, beyond, factor**1.5
    return None


def _narrow(over: Callable[[float], float], bracket: _Bracket, tolerance: float) -> _Bracket:
    """A bracket with ``high`` <= ``low`` (1 + ``tolerance``): false position, and bisection every third time.

    A guess is moved by half the tolerance, once to either side, so that the next one closes the bracket.
    """
    low, over_low, high, over_high = bracket
    side, turn = 1.0, 0
    while high > low * (1 + tolerance):
        turn += 1
        width = math.log(high / low)
        share = over_low / (over_low - over_high) if math.isfinite(over_low - over_high) and turn % 3 else 0.5
        nudge = 0.4 * tolerance / width
        share = min(max(share + side * nudge, nudge), 1 - nudge)
        middle = low * math.exp(share * width)
        value = over(middle)
        if value <= 0:
            high, over_high, side = middle, value, -1.0
        else:
            low, over_low, side = middle, value, 1.0
    return _Bracket(low, over_low, high, over_high)
