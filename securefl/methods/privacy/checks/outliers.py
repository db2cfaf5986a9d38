"""Outlier checks: more large coordinates than noise and an allowed signal can cause.

In a signal of norm at most B at most B^2 / u^2 coordinates have size u, and each lies beyond t with
probability P(|Z + u| > t). Hence at most

    m(t) = d P(|Z| > t) + B^2 max_u (P(|Z + u| > t) - P(|Z| > t)) / u^2

coordinates are *expected* beyond t. Their number is a sum of independent events with a Poisson bound
(:func:`securefl.methods.privacy.checks.tails.poisson_tail`). A single spike of size B is allowed, so the
largest coordinate shows nothing below B; many coordinates beyond a level do.
"""

import functools
import math
from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from securefl.base.arrays import I64
from securefl.methods.privacy.checks import verdict
from securefl.methods.privacy.checks.null import Null, SumLaw, check_values, sum_law
from securefl.methods.privacy.checks.tails import poisson_tail

_FAR = 1.25
"""Ratio of neighbouring levels beyond the noise."""


def maximum(values: I64, null: Null, alpha: float) -> verdict.CheckVerdict:
    """Check the largest magnitude against noise and an allowed signal.

    The p-value is a union bound over the coordinates; those with signal also count as noise, so it decreases.

    ``values`` are i64 ``(d,)``, steps, ``alpha`` is the false-alarm level; invalid ones raise a UsageError.
    """
    dim = check_values(values)
    verdict.check_level(alpha)
    largest, limit = max(int(values.max()), -int(values.min())), _limit(null, dim, alpha)
    return verdict.judge(
        "maximum",
        alpha,
        _beyond(null, dim, largest - 1) if largest else 1.0,
        statistic=largest,
        threshold=limit,
        reason=(
            f"largest magnitude {_in_std(largest, null)} of the noise, passes up to {_in_std(limit, null)}"
        ),
    )


def tail_counts(values: I64, null: Null, alpha: float) -> verdict.CheckVerdict:
    """Check the numbers of coordinates beyond a few fixed levels: higher criticism by exact counts.

    Higher criticism (Donoho and Jin 2004) takes the largest standardised number of small p-values over all
    levels. Here levels are fixed: expected numbers of 1, 2, 4 ... up to d / 8 for noise alone, and larger
    magnitudes up to the allowance. Each count has a conservative Poisson p-value (Berk and Jones 1979); the
    smallest is multiplied by the number of levels. The statistic is the count at its level, the threshold the
    largest count that passes there. Arguments and errors are as for :func:`maximum`.
    """
    dim = check_values(values)
    verdict.check_level(alpha)
    levels = expected_counts(null, dim)
    beyond = _counts_beyond(values, sum_law(null), [level.step for level in levels])
    p_values = [poisson_tail(level.mean, count) for level, count in zip(levels, beyond, strict=True)]
    worst = min(range(len(levels)), key=lambda i: (p_values[i], -beyond[i]))
    level, count = levels[worst], beyond[worst]
    passes = _critical(level.mean, alpha / len(levels))
    return verdict.judge(
        "tail counts",
        alpha,
        p_values[worst] * len(levels),
        statistic=count,
        threshold=passes,
        reason=(
            f"{count} coordinates beyond {_in_std(level.step, null)} of the noise, at most {level.mean:,.1f}"
            f" expected, passes up to {passes}"
        ),
    )


class Level(NamedTuple):
    """A magnitude and the expected number of coordinates beyond it."""

    step: int
    """Magnitude t, steps."""
    mean: float
    """m(t): upper bound on the expected number of coordinates beyond."""


@functools.lru_cache(maxsize=64)
def expected_counts(null: Null, dim: int) -> tuple[Level, ...]:
    """Return the levels of :func:`tail_counts`, lowest first."""
    law = sum_law(null)
    steps = set()
    wanted = 1.0
    while wanted <= dim / 8:
        # P(|Z| > t) = 2 P(Z >= t + 1) falls with t: the first t at which it is low enough.
        steps.add(int(np.searchsorted(-law.from_on, -wanted / (2 * dim))) - 1)
        wanted *= 2
    far = max(steps) * _FAR
    while far < null.allowance + 4 * null.sum_std:
        steps.add(math.ceil(far))
        far *= _FAR
    levels = (Level(step, dim * law.outside(step) + _moved_mass(null, law, step)) for step in sorted(steps))
    return tuple(level for level in levels if level.mean <= dim / 4) or (Level(max(steps), float(dim)),)


def _moved_mass(null: Null, law: SumLaw, step: int) -> float:
    """Return B^2 max_u (P(|Z + u| > t) - P(|Z| > t)) / u^2 over the integers 1 <= u <= B."""
    # For larger u the squared denominator outgrows the remaining probability; for smaller u, Z + u < t.
    last = min(step + min(law.largest, math.ceil(0.25 * step + 1.25 * null.sum_std) + 2), null.longest)
    first = max(1, step - law.largest)
    if last < first:
        return 0.0
    sizes = np.arange(first, last + 1)
    more = law.above(step - sizes) + law.above(step + sizes) - law.outside(step)
    return null.signal_energy * float((more / np.square(sizes.astype(np.float64))).max())


def _beyond(null: Null, dim: int, step: int) -> float:
    """Return an upper bound on P(some magnitude exceeds ``step``), ``step`` >= 0; decreases with ``step``."""
    law = sum_law(null)
    first, last = max(1, step - law.largest), min(step + law.largest + 1, null.longest)
    spike = 0.0
    if first <= last:
        sizes = np.arange(first, last + 1)
        chance = law.above(step - sizes) + law.above(step + sizes)
        spike = null.signal_energy * float((chance / np.square(sizes.astype(np.float64))).max())
    return dim * law.outside(step) + spike


@functools.lru_cache(maxsize=64)
def _limit(null: Null, dim: int, alpha: float) -> int:
    """Return the largest magnitude that passes."""
    high = sum_law(null).largest + null.longest + 1
    return bisect_left(range(high), x=True, key=lambda step: _beyond(null, dim, step) <= alpha)


def _counts_beyond(values: I64, law: SumLaw, steps: list[int]) -> list[int]:
    """Return the number of magnitudes that exceed each step."""
    inside = np.cumsum(law.magnitudes(values))
    near = [step for step in steps if step <= law.largest]
    sizes = np.abs(values.astype(np.float64)) if len(near) < len(steps) else np.empty(0)
    far = [int(np.count_nonzero(sizes > step)) for step in steps if step > law.largest]
    return [values.size - int(inside[step]) for step in near] + far


def _critical(mean: float, alpha: float) -> int:
    """Return the largest count that passes at ``alpha``."""
    low, high = math.ceil(mean), math.ceil(mean + 20 * math.sqrt(mean) + 60)
    while low < high:
        middle = (low + high + 1) // 2
        if poisson_tail(mean, middle) > alpha:
            low = middle
        else:
            high = middle - 1
    return low


def _in_std(step: int, null: Null) -> str:
    return f"{step / null.sum_std:.2f} standard deviations"
