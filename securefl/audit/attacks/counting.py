"""Exact statements about counts: binomial tails, and Clopper and Pearson's interval of a rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from securefl.arrays import F64
from securefl.errors import UsageError

_HALVINGS = 45
"""Of an interval of rates: what is left is below 10^-13."""


class Interval(NamedTuple):
    """Rates, 0 <= ``low`` <= ``high`` <= 1."""

    low: float
    high: float


def probabilities(trials: int, rate: float) -> F64:
    """P(X = k) of X ~ Binomial(``trials``, ``rate``), f64 ``(trials + 1,)``.

    Raises:
        UsageError: a negative number of trials, or no rate.
    """
    if trials < 0 or not 0 <= rate <= 1:
        raise UsageError(f"no binomial law has {trials} trials at rate {rate}")
    hits = np.arange(trials + 1)
    if rate in (0, 1):
        return np.where(hits == trials * rate, 1.0, 0.0)
    factorials = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    ways = factorials[-1] - factorials - factorials[::-1]
    law: F64 = np.exp(ways + hits * math.log(rate) + hits[::-1] * math.log1p(-rate))
    return law


def upper_tail(trials: int, rate: float, at_least: int) -> float:
    """P(X >= ``at_least``) of X ~ Binomial(``trials``, ``rate``).

    Raises:
        UsageError: as for :func:`probabilities`.
    """
    return min(1.0, float(probabilities(trials, rate)[max(at_least, 0) :].sum()))


def clopper_pearson(hits: int, trials: int, confidence: float) -> Interval:
    """The rates at which ``hits`` of ``trials`` independent trials would be no surprise, to either side.

    Each end is wrong with a probability of at most (1 - ``confidence``) / 2, whatever the rate (Clopper and
    Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the binomial").

    Raises:
        UsageError: ``hits`` outside [0, ``trials``], no trials, or a confidence outside (0, 1).
    """
    if not (0 <= hits <= trials and trials >= 1 and 0 < confidence < 1):
        raise UsageError(f"no interval from {hits} of {trials} at confidence {confidence}")
    error = (1 - confidence) / 2
    low = 0.0 if hits == 0 else _highest(lambda rate: upper_tail(trials, rate, hits) <= error)
    misses = trials - hits
    # Many hits at a small rate are few misses at a large one.
    high = 1.0 if misses == 0 else 1 - _highest(lambda rate: upper_tail(trials, rate, misses) <= error)
    return Interval(low, high)


def _highest(holds: Callable[[float], bool]) -> float:
    """The largest rate, rounded down, up to which ``holds`` does: it holds at 0 and not at 1."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
