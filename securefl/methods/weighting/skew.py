"""Skew by truncation: how far it moves what is minimised (Portnoy et al. 2022, Theorem 3), from losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from securefl.base import sums
from securefl.base.errors import UsageError


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
        raise UsageError(f"{len(losses)} losses for {len(counts)} counts")
    if cap <= 0 or min(counts) < 1:
        raise UsageError("counts and the cap are positive")
    for index, loss in enumerate(losses):
        if not (math.isfinite(loss) and loss >= 0):
            raise UsageError(f"the loss of party {index} is {loss}; losses are finite and not negative")
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
