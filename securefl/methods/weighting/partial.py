"""Cap on all parties' counts, tested on a random sample of them (Portnoy et al. 2022, Theorem 2).

The text of the paper lost its roots; with them

    eps1 = sqrt(ln(3 / delta) / 2k),    eps3 = U sqrt(ln(3 / delta) / 2k),
    eps2 = U sqrt(ln(3 / delta) / (2 (k (alpha - eps1) + 1))).

The proof applies Hoeffding's inequality to the mean of the largest values of the sample, which are not
independent draws; yet the required statement holds. Let x = k (alpha - eps1). The probability that at most x
draws come from the alpha K largest counts is at most delta / 3. Otherwise there are at least j = floor(x) + 1
such draws. They are independent, and the mean of the j largest values of the sample is at least theirs.

So eps2 uses j terms. The paper's x + 1 is up to one more unless x is an integer, and its eps2 too small for
this argument. ``docs/weighting.md`` has the measured coverage.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from securefl.base.errors import UsageError
from securefl.methods.weighting import truncation


@dataclass(frozen=True, slots=True)
class PartialView:
    """Bounds for all parties from a sample."""

    largest: float
    """Upper bound on the mean of the ceil(alpha K) largest truncated counts, at 1 - 2 delta / 3."""
    mean: float
    """Lower bound on the mean of all truncated counts, at 1 - delta / 3.

    At most 0 if the sample is not informative.
    """
    proportion: float
    """Upper bound on mwp(trunc(N, U), alpha), alpha ``largest`` / ``mean``; infinite if ``mean`` <= 0."""
    holds: bool
    """True if the proportion is at most alpha*."""


def smallest_sample(alpha: truncation.Share, delta: float) -> int:
    """Return the least k with eps1 < alpha."""
    return math.floor(math.log(3 / delta) / (2 * float(truncation.exact(alpha)) ** 2)) + 1


def values_averaged(surely: float) -> int:
    """Return the number of largest values averaged, floor(x) + 1, for x = k (alpha - eps1) > 0.

    An x just below an integer counts as that integer, which changes the probability by less than a relative
    4e-9.
    """
    return math.floor(surely + 1e-9) + 1


def partial_view(
    sample: Sequence[int],
    cap: Fraction | int,
    alpha: truncation.Share,
    alpha_star: truncation.Share,
    delta: float,
) -> PartialView:
    """Test the bound on k counts that were drawn independently and uniformly from all.

    If alpha K is not an integer, pass ceil(alpha K) / K as ``alpha``, since mwp uses ceil(alpha K) parties.

    ``sample`` has positive counts, not yet truncated; ``alpha`` and ``alpha_star`` are as for
    :func:`~securefl.methods.weighting.truncation.largest_cap`. A reported bound does not hold with
    probability ``delta``, in (0, 1).

    Raises:
        UsageError: too few counts (:func:`smallest_sample`), or a parameter out of range.
    """
    low, high = float(truncation.exact(alpha)), float(truncation.exact(alpha_star))
    if not 0 < low < high < 1 or not 0 < delta < 1 or cap <= 0:
        raise UsageError(
            f"0 < alpha < alpha_star < 1, 0 < delta < 1 and cap > 0 must hold; found {alpha},"
            f" {alpha_star}, {delta}, {cap}"
        )
    k = len(sample)
    if k < smallest_sample(alpha, delta):
        needed = smallest_sample(alpha, delta)
        raise UsageError(
            f"sample must have at least {needed} counts at alpha = {alpha}, delta = {delta}; found {k}"
        )
    ranked = sorted(float(min(count, cap)) for count in sample)
    logarithm, top = math.log(3 / delta), float(cap)
    eps1 = math.sqrt(logarithm / (2 * k))
    terms = values_averaged(k * (low - eps1))
    eps2 = top * math.sqrt(logarithm / (2 * terms))
    eps3 = top * math.sqrt(logarithm / (2 * k))
    largest = math.fsum(ranked[-terms:]) / terms + eps2
    mean = math.fsum(ranked) / k - eps3
    proportion = low * largest / mean if mean > 0 else math.inf
    return PartialView(largest, mean, proportion, proportion <= high)
