"""Truncation of declared counts, so that a few parties cannot hold more than a stated share of the weight.

Portnoy, Tirosh and Hendler, "Towards federated learning with Byzantine-robust client weighting", Applied
Sciences 12, 2022 (doi 10.3390/app12178847), section 2.2: Definition 1, Equations 3 to 5, Theorem 1, Algorithm
3; Theorem 3 on the skew.

All results are exact: U is rational, and shares are decimal fractions as written, since ceil(0.1 * 100) of a
float would be eleven.
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
"""Share in (0, 1). A float means the shortest decimal fraction that reads as it."""


def exact(share: Share) -> Fraction:
    """Return the number as written: 0.1 is 1/10."""
    return share if isinstance(share, Fraction) else Fraction(repr(float(share)))


def heaviest(parties: int, share: Share) -> int:
    """Return the number of parties in a share: t = ceil(share * parties), as in Definition 1."""
    return math.ceil(exact(share) * parties)


def mwp(counts: Iterable[int | Fraction], share: Share) -> Fraction:
    """Return the maximal weight proportion (Definition 1): the weight share of the ceil(share K) heaviest.

    Raises:
        UsageError: no counts, a negative one, all 0, or a share outside (0, 1].
    """
    if not 0 < exact(share) <= 1:
        raise UsageError(f"share of the parties must be above 0 and at most 1, found {share}")
    given = list(counts)
    # Integers are many times faster than fractions.
    unit = math.lcm(*(count.denominator for count in given))
    ranked = sorted((int(count * unit) for count in given), reverse=True)
    if not ranked or ranked[-1] < 0 or not ranked[0]:
        raise UsageError("counts must not be negative, and at least one must be positive")
    return Fraction(sums.exact_sum(ranked[: heaviest(len(ranked), share)]), sums.exact_sum(ranked))


def truncate_counts(counts: Iterable[int], cap: Fraction | int) -> list[Fraction | int]:
    """Return trunc(N, U): every count, but at most ``cap``."""
    return [min(count, cap) for count in counts]


def feasible(parties: int, alpha: Share, alpha_star: Share) -> bool:
    """Return True if any weights of this many parties keep the bound.

    Equal weights have the smallest maximal proportion, ceil(alpha K) / K.
    """
    return heaviest(parties, alpha) <= exact(alpha_star) * parties


def largest_cap(counts: Sequence[int], alpha: Share, alpha_star: Share) -> Fraction:
    """Return the largest U with mwp(trunc(N, U), alpha) <= alpha* (Equation 4), up to the largest count.

    By Theorem 1 no other way to lower counts until the bound holds removes less in total. A U equal to the
    largest count truncates no party. Here ``alpha`` is the share of the parties whose counts may be false,
    ceil(alpha K) of them; ``alpha_star`` is the share of the weight that these may reach. Cost: O(K log K).

    Raises:
        UsageError: not 0 < alpha < alpha* < 1, a count is not a positive integer, or even equal weights
            exceed the bound (:func:`feasible`).
    """
    low, high = exact(alpha), exact(alpha_star)
    if not 0 < low < high < 1:
        raise UsageError(
            f"0 < alpha < alpha_star < 1 must hold, found alpha = {alpha} and alpha_star = {alpha_star}"
        )
    profile = Profile(counts)
    if not feasible(profile.parties, low, high):
        raise UsageError(
            f"no cap keeps {heaviest(profile.parties, low)} of {profile.parties} parties to a share of"
            f" alpha_star = {alpha_star} of the weight: with equal weights they have more"
        )
    return profile.cap(heaviest(profile.parties, low), high)


def curve(counts: Sequence[int], alpha_star: Share) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield pairs (alpha, U) for decreasing alpha = t / K (Algorithm 3): the cost of tolerating more parties.

    t falls from floor(alpha* K), the most that any weights allow, to 1. The curve ends when U reaches the
    largest count, which truncates no party.

    Raises:
        UsageError: ``alpha_star`` is not in (0, 1), or a count is not positive.
    """
    high = exact(alpha_star)
    if not 0 < high < 1:
        raise UsageError(
            "alpha_star, the share of the weight that a rule tolerates, must be in (0, 1), found"
            f" {alpha_star}"
        )
    profile = Profile(counts)
    for liars in range(math.floor(high * profile.parties), 0, -1):
        cap = profile.cap(liars, high)
        yield Fraction(liars, profile.parties), cap
        if cap == profile.largest:
            return


class Profile:
    """Counts in ascending order with their sums, which give any cap in O(log K)."""

    def __init__(self, counts: Sequence[int]) -> None:
        """Sort the counts.

        Raises:
            UsageError: no counts, or a count that is not a positive integer.
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
        """Largest declared count, n_1."""
        return self._ranked[-1]

    def cap(self, liars: int, alpha_star: Fraction) -> Fraction:
        """Return the largest U with which ``liars`` parties have at most ``alpha_star`` of the weight.

        The proportion increases with U, so bisection finds the last count whose U is low enough. Between it
        and the next count, with u counts above, the sums are min(t, u) U + a for the t heaviest and u U + b
        for all. Hence U = (alpha* b - a) / (min(t, u) - alpha* u) (Equation 5).

        ``liars`` t is from 1 to floor(alpha* K), ``alpha_star`` in (0, 1).
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
        # ``low`` is the last of equal counts; the next count as U would exceed the bound.
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
        """Return the weight of the ``liars`` heaviest that are not among the ``above`` heaviest."""
        if liars <= above:
            return 0
        return self._upto[self.parties - above] - self._upto[self.parties - liars]


@dataclass(frozen=True, slots=True)
class Skew:
    """Objective with declared and with truncated counts, and the bound on the difference."""

    declared: float
    """F(w): mean loss over parties, weighted by their declared counts."""
    truncated: float
    """The same, weighted by truncated counts."""
    bound: float
    """Upper bound on ``declared - truncated``. One-sided: ``truncated`` may be larger by any amount."""

    @property
    def difference(self) -> float:
        """``declared - truncated``."""
        return self.declared - self.truncated


def objective_skew(counts: Sequence[int], cap: Fraction | int, losses: Sequence[float]) -> Skew:
    """Return the objectives and the bound of Theorem 3.

    The bound is the sum over n_i > U of (n_i / n - 1 / K) F_i, plus (1/n - 1/n~) times the sum over the
    others of n_i F_i. The second term is never positive: parties below U gain weight. Both are 0 if no party
    is truncated and U K = n. A false count can raise the first to the party's loss.

    ``losses`` F_i are the mean losses of one model on each party's samples, L(Z_i) = n_i F_i; ``cap`` is U >
    0.

    Raises:
        UsageError: no losses, not as many losses as counts, or one that is negative or not finite (the proof
            assumes losses >= 0).
    """
    if not counts or len(counts) != len(losses):
        raise UsageError(
            f"losses must have one value for each count, at least one; found {len(losses)} losses,"
            f" {len(counts)} counts"
        )
    if cap <= 0 or min(counts) < 1:
        raise UsageError(f"cap and counts must be positive, found cap {cap} and smallest count {min(counts)}")
    for index, loss in enumerate(losses):
        if not (math.isfinite(loss) and loss >= 0):
            raise UsageError(f"the loss of party {index} must be finite and not negative, found {loss}")
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
