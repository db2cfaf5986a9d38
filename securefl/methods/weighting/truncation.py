"""Truncation of declared counts, so that no few parties can hold more than a stated share of the weight.

Portnoy, Tirosh and Hendler, "Towards federated learning with Byzantine-robust client weighting", Applied
Sciences 12, 2022 (doi 10.3390/app12178847), section 2.2: Definition 1, Equations 3 to 5, Theorem 1,
Algorithm 3.

Everything is exact: counts are integers, shares are decimal fractions as they are written (0.1 is one tenth,
not the nearest binary number above it, which would make ceil(0.1 * 100) eleven), and U is a rational number.

Skew by truncation: how far it moves what is minimised (Portnoy et al. 2022, Theorem 3), from losses.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from securefl.base import sums
from securefl.base.errors import UsageError

Share = float | Fraction
"""In (0, 1). A float stands for the shortest decimal fraction that reads as it."""


def exact(share: Share) -> Fraction:
    """The number that was written: 0.1 is 1/10."""
    return share if isinstance(share, Fraction) else Fraction(repr(float(share)))


def heaviest(parties: int, share: Share) -> int:
    """The number of parties that a share is: t = ceil(share * parties), as in Definition 1."""
    return math.ceil(exact(share) * parties)


def mwp(counts: Iterable[int | Fraction], share: Share) -> Fraction:
    """Maximal weight proportion (Definition 1): of the whole, what the ceil(share K) heaviest weigh.

    Args:
        counts: K >= 1 of them, in any order, not negative, not all 0.
        share: of the parties, in (0, 1].

    Raises:
        UsageError: no weight, or a negative one, or a share outside (0, 1].
    """
    if not 0 < exact(share) <= 1:
        raise UsageError(f"a share of the parties lies in (0, 1], not {share}")
    given = list(counts)
    # Whole numbers sort and add many times faster than fractions.
    unit = math.lcm(*(count.denominator for count in given))
    ranked = sorted((int(count * unit) for count in given), reverse=True)
    if not ranked or ranked[-1] < 0 or not ranked[0]:
        raise UsageError("the weights of a proportion are not negative, and one of them is positive")
    return Fraction(sums.exact_sum(ranked[: heaviest(len(ranked), share)]), sums.exact_sum(ranked))


def truncate_counts(counts: Iterable[int], cap: Fraction | int) -> list[Fraction | int]:
    """trunc(N, U): every count, but ``cap`` at most."""
    return [min(count, cap) for count in counts]


def feasible(parties: int, alpha: Share, alpha_star: Share) -> bool:
    """Whether any weights of so many parties keep to the bound: those that are all equal do, or none.

    ceil(alpha K) of K equal weights are ceil(alpha K) / K of the whole, and no other weights have a smaller
    maximal proportion.
    """
    return heaviest(parties, alpha) <= exact(alpha_star) * parties


def largest_cap(counts: Sequence[int], alpha: Share, alpha_star: Share) -> Fraction:
    """The largest U with mwp(trunc(N, U), alpha) <= alpha* (Equation 4), up to the largest count.

    By Theorem 1 no other way to lower counts until the bound holds takes away less in all. A U as large as
    the largest count truncates nobody. O(K log K) for the sort.

    Args:
        counts: N, K >= 1 positive integers in any order.
        alpha: share of the parties that may lie, 0 < alpha < alpha*; ceil(alpha K) of them are reckoned with.
        alpha_star: share of the weight that these may get to, below 1.

    Raises:
        UsageError: the shares are out of order or range, a count is not positive, or there are so few parties
            that even equal weights cross the bound (:func:`feasible`).
    """
    low, high = exact(alpha), exact(alpha_star)
    if not 0 < low < high < 1:
        raise UsageError(
            f"alpha = {alpha} must be above 0 and below alpha_star = {alpha_star}, which must be below 1"
        )
    profile = Profile(counts)
    if not feasible(profile.parties, low, high):
        raise UsageError(
            f"no cap keeps {heaviest(profile.parties, low)} of {profile.parties} parties to a share of"
            f" alpha_star = {alpha_star} of the weight: with equal weights they have more"
        )
    return profile.cap(heaviest(profile.parties, low), high)


def curve(counts: Sequence[int], alpha_star: Share) -> Iterator[tuple[Fraction, Fraction]]:
    """Pairs (alpha, U) for falling alpha = t / K (Algorithm 3): what tolerating more liars costs.

    From t = floor(alpha* K), the most that any weights allow, down to 1. Where U comes to the largest count
    nobody is truncated any more, and the curve ends.

    Args:
        counts: N, as for :func:`largest_cap`.
        alpha_star: the same.

    Raises:
        UsageError: ``alpha_star`` is not in (0, 1), or a count is not positive.
    """
    high = exact(alpha_star)
    if not 0 < high < 1:
        raise UsageError(
            f"alpha_star, the share of the weight that a rule tolerates, is {alpha_star}, not between 0 and 1"
        )
    profile = Profile(counts)
    for liars in range(math.floor(high * profile.parties), 0, -1):
        cap = profile.cap(liars, high)
        yield Fraction(liars, profile.parties), cap
        if cap == profile.largest:
            return


class Profile:
    """Counts in rising order with their sums, from which any cap follows in O(log K)."""

    def __init__(self, counts: Sequence[int]) -> None:
        """Sort them.

        Raises:
            UsageError: none, or one that is not a positive integer.
        """
        if not counts or not all(isinstance(count, int) and count >= 1 for count in counts):
            raise UsageError("counts must be one or more positive integers")
        self._ranked = sorted(counts)
        self._upto = [0, *accumulate(self._ranked)]

    @property
    def parties(self) -> int:
        """K."""
        return len(self._ranked)

    @property
    def largest(self) -> int:
        """n_1, of the party that declares most."""
        return self._ranked[-1]

    def cap(self, liars: int, alpha_star: Fraction) -> Fraction:
        """The largest U with which ``liars`` parties weigh ``alpha_star`` of the whole at most.

        The proportion rises with U, so that the counts whose U is low enough come first in the order. Between
        the last of these and the next count both sums are linear in U: with u counts above, min(t, u) U + a
        for the t heaviest and u U + b for all, hence U = (alpha* b - a) / (min(t, u) - alpha* u)
        (Equation 5).

        Args:
            liars: t, from 1 to floor(alpha* K).
            alpha_star: the bound, in (0, 1).
        """
        low, high = 0, self.parties - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._exceeds(self._ranked[middle], liars, alpha_star):
                high = middle - 1
            else:
                low = middle
        if low == self.parties - 1:
            return Fraction(self.largest)
        # ``low`` is the last of its equals: the next count is larger, and with it as U the bound is crossed.
        above = self.parties - 1 - low
        among = self._top(liars, above)
        rest = self._upto[low + 1]
        return (alpha_star * rest - among) / (min(liars, above) - alpha_star * above)

    def _exceeds(self, cap: int, liars: int, alpha_star: Fraction) -> bool:
        above = self.parties - bisect_left(self._ranked, cap)
        whole = above * cap + self._upto[self.parties - above]
        part = min(liars, above) * cap + self._top(liars, above)
        return part * alpha_star.denominator > alpha_star.numerator * whole

    def _top(self, liars: int, above: int) -> int:
        """The weight of those of the ``liars`` heaviest that are not among the ``above`` heaviest."""
        if liars <= above:
            return 0
        return self._upto[self.parties - above] - self._upto[self.parties - liars]


@dataclass(frozen=True, slots=True)
class Skew:
    """The objective as declared counts weigh it, as truncated ones do, and the bound on the difference."""

    declared: float
    """F(w): mean loss over parties, weighted by their declared counts."""
    truncated: float
    """The same, weighted by counts of at most U."""
    bound: float
    """At least ``declared - truncated``. One-sided: it says nothing of how much larger ``truncated`` may
    be."""

    @property
    def difference(self) -> float:
        """The quantity that the bound is on."""
        return self.declared - self.truncated


def objective_skew(counts: Sequence[int], cap: Fraction | int, losses: Sequence[float]) -> Skew:
    """Theorem 3: the sum over n_i > U of (n_i / n - 1 / K) F_i, plus (1/n - 1/n~) times that of n_i F_i else.

    The second factor is never positive: parties below U gain weight. Nothing is left of either where nobody
    is truncated and U K = n; a liar can make the first as large as the loss on its data by declaring more.

    Args:
        counts: declared, n_i >= 1.
        cap: U > 0.
        losses: F_i >= 0, the mean loss of one model on the samples of each party; L(Z_i) = n_i F_i.

    Raises:
        UsageError: not as many losses as counts, none, or one that is negative or not finite (the proof takes
            losses to be at least 0).
    """
    if not counts or len(counts) != len(losses):
        raise UsageError(f"got {len(losses)} losses for {len(counts)} counts, expected as many, at least one")
    if cap <= 0 or min(counts) < 1:
        raise UsageError("counts and the cap must be positive")
    for index, loss in enumerate(losses):
        if not (math.isfinite(loss) and loss >= 0):
            raise UsageError(f"the loss of party {index} is {loss}; losses must be finite and not negative")
    kept = [min(Fraction(count), Fraction(cap)) for count in counts]
    whole, less, parties = sums.exact_sum(counts), sums.exact_sum(kept), len(counts)
    above = [(n, loss) for n, loss in zip(counts, losses, strict=True) if n > cap]
    below = [(n, loss) for n, loss in zip(counts, losses, strict=True) if n <= cap]
    first = math.fsum((n / whole - 1 / parties) * loss for n, loss in above)
    second = float(Fraction(1, whole) - 1 / less) * math.fsum(n * loss for n, loss in below)
    return Skew(
        declared=math.fsum(n / whole * loss for n, loss in zip(counts, losses, strict=True)),
        truncated=math.fsum(float(n / less) * loss for n, loss in zip(kept, losses, strict=True)),
        bound=first + second,
    )
