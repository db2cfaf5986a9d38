"""A cap on all parties' counts, tested on a random sample of them (Portnoy et al. 2022, Theorem 2).

For federations of so many parties that nobody asks all of them. The text of the paper lost its roots; with
them

    eps1 = sqrt(ln(3 / delta) / 2k),    eps3 = U sqrt(ln(3 / delta) / 2k),
    eps2 = U sqrt(ln(3 / delta) / (2 (k (alpha - eps1) + 1))).

The proof applies Hoeffding's inequality to the mean of the largest values of the sample, which are order
statistics and so not independent draws. What it needs is true all the same. Let x = k (alpha - eps1). That x
or fewer draws come from the alpha K largest counts has probability delta / 3 at most (the inequality bounds
"at most x", x itself included), so that with the others there are j = floor(x) + 1 of them or more: as many
as the theorem's mean has terms, x + 1 where x is a whole number. j draws of them are independent of each
other, and the mean of the j largest values of the sample is no smaller than theirs.

So eps2 goes with j terms. The paper's x + 1 is j where x is whole, and up to one more elsewhere: there its
eps2 is too small for this argument, and j takes its place here. ``docs/weighting.md`` has the coverage as
measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from securefl.base.errors import UsageError
from securefl.methods.weighting import truncation


@dataclass(frozen=True, slots=True)
class PartialView:
    """A sample's evidence about all parties."""

    largest: float
    """Upper bound on the mean of the ceil(alpha K) largest truncated counts, at confidence 1 - 2 delta /
    3."""
    mean: float
    """Lower bound on the mean of all truncated counts, at 1 - delta / 3; at most 0 where the sample says
    nothing."""
    proportion: float
    """Upper bound on mwp(trunc(N, U), alpha), alpha ``largest`` / ``mean``; infinite where ``mean`` is not
    positive."""
    holds: bool
    """Whether that is at most alpha*."""


def smallest_sample(alpha: truncation.Share, delta: float) -> int:
    """The least k with eps1 < alpha: below it none of the sample surely belongs to the largest alpha K."""
    return math.floor(math.log(3 / delta) / (2 * float(truncation.exact(alpha)) ** 2)) + 1


def values_averaged(surely: float) -> int:
    """The number of largest values averaged, floor(x) + 1, for x = k (alpha - eps1) > 0.

    An x that rounding put just below a whole number is that number. The other way round nothing is lost
    either: the probability that eps1 stands for changes with x by less than its 4e-9th part.
    """
    return math.floor(surely + 1e-9) + 1


def partial_view(
    sample: Sequence[int],
    cap: Fraction | int,
    alpha: truncation.Share,
    alpha_star: truncation.Share,
    delta: float,
) -> PartialView:
    """Test the bound on k counts that were drawn from all independently, each as likely as the others.

    Where alpha K is no whole number, mwp reckons with ceil(alpha K) parties and the theorem with alpha K:
    then give ceil(alpha K) / K as ``alpha``.

    Args:
        sample: the counts, positive, not yet truncated.
        cap: U.
        alpha: share of the parties that may lie.
        alpha_star: share of the weight that they may get to.
        delta: probability that a bound that does not hold is said to hold, in (0, 1).

    Raises:
        UsageError: too few counts (:func:`smallest_sample`), or a parameter out of range.
    """
    low, high = float(truncation.exact(alpha)), float(truncation.exact(alpha_star))
    if not 0 < low < high < 1 or not 0 < delta < 1 or cap <= 0:
        raise UsageError(
            f"alpha = {alpha}, alpha_star = {alpha_star}, delta = {delta} or cap = {cap} is out of range"
        )
    k = len(sample)
    if k < smallest_sample(alpha, delta):
        needed = smallest_sample(alpha, delta)
        raise UsageError(
            f"{k} counts are too few at alpha = {alpha}, delta = {delta}: at least {needed} are needed"
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
