"""Exact binomial statistics."""

from typing import NamedTuple

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.methods import clustering


class Interval(NamedTuple):
    """Interval of rates, 0 <= ``low`` <= ``high`` <= 1."""

    low: float
    high: float


def probabilities(trials: int, rate: float) -> F64:
    """Return P(X = k) of X ~ Binomial(``trials``, ``rate``), f64 ``(trials + 1,)``.

    Raises:
        UsageError: ``trials`` < 0, or a rate outside [0, 1].
    """
    if trials < 0 or not 0 <= rate <= 1:
        raise UsageError(f"trials must be at least 0 and rate in [0, 1], found {trials} and {rate}")
    return clustering.binomial_law(trials, rate)


def clopper_pearson(hits: int, trials: int, confidence: float) -> Interval:
    """Return the two-sided confidence interval of a rate from ``hits`` of ``trials`` independent trials.

    Each end is wrong with probability at most (1 - ``confidence``) / 2 (Clopper and Pearson 1934, "The use of
    confidence or fiducial limits illustrated in the case of the binomial").

    Raises:
        UsageError: ``hits`` outside [0, ``trials``], no trials, or a confidence outside (0, 1).
    """
    if not (0 <= hits <= trials and trials >= 1 and 0 < confidence < 1):
        raise UsageError(
            f"0 <= hits <= trials, trials >= 1 and 0 < confidence < 1 must hold, found {hits},"
            f" {trials}, {confidence}"
        )
    from scipy import special  # noqa: PLC0415 - a fifth of a second that only audits spend

    error, misses = (1 - confidence) / 2, trials - hits
    low = float(special.betaincinv(hits, misses + 1, error)) if hits else 0.0
    high = float(special.betainccinv(hits + 1, misses, error)) if misses else 1.0
    return Interval(low, high)
