"""Axes of plots: ticks at round numbers, linear or logarithmic, and places between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to [0, 1]."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool

    def place(self, value: float) -> float | None:
        """Where ``value`` lies, 0 at ``low`` and 1 at ``high``; None for what the axis cannot show."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        low, high, at = (self.low, self.high, value)
        if self.log:
            low, high, at = math.log10(low), math.log10(high), math.log10(value)
        return (at - low) / (high - low)


def axis(
    values: Iterable[float],
    *,
    log: bool = False,
    fixed: tuple[float, float] | None = None,
    wanted: int = 6,
    whole: bool = False,
) -> Axis:
    """An axis that shows all of ``values``, or from ``fixed[0]`` to ``fixed[1]``.

    ``whole``: there is nothing between whole numbers.
    """
    known = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    low, high = fixed or (min(known, default=1.0 if log else 0.0), max(known, default=1.0))
    if log:
        return _logarithmic(max(low, 1e-300), high)
    if high <= low:
        low, high = low - 0.5, high + 0.5
    step = _step(max((high - low) / wanted, 1.0 if whole else 0.0))
    if fixed is None:
        low, high = step * math.floor(low / step), step * math.ceil(high / step)
    first = math.ceil(low / step - 1e-9)
    ticks = [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]
    return Axis(low, high, tuple(ticks), log=False)


def label(value: float) -> str:
    """A tick in few characters."""
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.4g}"


def _logarithmic(low: float, high: float) -> Axis:
    bottom, top = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if top <= bottom:
        top = bottom + 1
    every = max(1, (top - bottom) // 6)
    ticks = tuple(10.0**power for power in range(bottom, top + 1, every))
    return Axis(10.0**bottom, 10.0**top, ticks, log=True)


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * step for step in _STEPS if power * step >= rough * (1 - 1e-9))
