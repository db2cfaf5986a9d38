"""Evidence over rounds: e-values, which may be multiplied and looked at after every round.

A p-value says nothing about a party that deviates a little in every round. An e-value is a nonnegative number
whose mean is at most 1 when all is honest. Noise is fresh in every round, so products over rounds stay so,
and by Ville's inequality the product *ever* reaches 1 / alpha with probability at most alpha: one may stop
and act at any time. Several e-values of one round, which share parties and perhaps noise, are averaged, which
needs no independence.

Three kinds of evidence, with three guarantees:

- **of a cluster** that stays together (fixed clusters): if its members follow the plan in all rounds, it ever
  reaches 1 / alpha with probability at most alpha.
- **of company**, for a party under reclustering: the product over rounds of the mean over the sums that hold
  it. The same guarantee, but what it rules out is that *all who ever shared a sum with the party* are honest.
  It ranks parties, and a deviating one is ahead on average; **it convicts nobody**, since honest parties get
  their cluster mates' evidence too.
- **of presence** (:func:`presence`): speaks of the party itself, if the number of Byzantine parties is
  bounded and clusters are drawn at random after everybody is committed to taking part. An honest party's
  sum then fails at most as often as there is Byzantine company in it, even if the others deviate only where
  that blames the party.

For a statement about all N parties at once ask for N / alpha instead of 1 / alpha.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from securefl.base.errors import UsageError

STAKE: Final = 0.25
"""Share of the evidence that is bet in each round. All of it would lose half where p-values are near 1,
and could not recover from rounds in which a party behaves."""

PRESENCE_STAKES: Final = (0.25, 0.5, 0.9)
"""For :func:`presence`, side by side like checks: high ones pay where a party nearly always deviates, and has
company nearly as often."""

KeyT = TypeVar("KeyT")


def calibrate(p_value: float) -> float:
    """The e-value of a p-value: the mean of k p^(k - 1) over 0 < k < 1; 1/2 at p = 1.

    Raises:
        UsageError: ``p_value`` outside (0, 1].

    Source: Vovk and Wang 2021, "E-values: calibration, combination and applications" (arXiv 1912.06116).
    """
    if not 0 < p_value <= 1:
        raise UsageError(f"{p_value} is no p-value to bet on")
    log = math.log(p_value)
    # (1 - p + p ln p) / (p ln^2 p); near p = 1 by its series, because the digits cancel there.
    mixed = 0.5 - log / 6 if log > -1e-4 else (-math.expm1(log) + p_value * log) / (p_value * log * log)
    return 1 - STAKE + STAKE * mixed


def presence(failed: bool, company: float, alpha: float, stake: float = STAKE) -> float:
    """The e-value of one sum for "this party is honest".

    A bet at odds that are fair when the sum of an honest party fails with probability ``company`` +
    ``alpha``, against its failing always.

    Args:
        failed: whether the sum's family of checks failed.
        company: at least the probability that a given honest party shares a sum with a Byzantine one:
            ``odds.tail(N - 1, q, m - 1, 1)`` for q Byzantine parties of N in clusters of m.
        alpha: at least the probability that the sum of honest parties fails.
        stake: share of the evidence that is bet, in (0, 1).

    Raises:
        UsageError: probabilities out of range.
    """
    if not (0 <= company <= 1 and 0 < alpha < 1 and 0 < stake < 1):
        raise UsageError(f"company {company}, level {alpha}, stake {stake}")
    chance = company + alpha
    if chance >= 1:
        return 1.0
    return 1 - stake + stake / chance if failed else 1 - stake


@dataclass(frozen=True, slots=True)
class CheckEvidence:
    """Products of e-values over rounds, one per check, and their mean: what the checks find stays apart.

    A mean of products is a product of e-values as good as any. A check that finds a little in every round
    grows, while the others, which find nothing, cost no more than their share of the mean.
    """

    logs: tuple[float, ...] = ()
    """Logarithms of the products: they outgrow floats."""
    log_highest: float = 0.0
    """The most that the mean ever was: Ville's inequality is about this."""
    rounds: int = 0

    @property
    def log_now(self) -> float:
        """Logarithm of the mean."""
        highest = max(self.logs, default=0.0)
        if not self.logs or not math.isfinite(highest):
            return highest
        return highest + math.log(math.fsum(math.exp(log - highest) for log in self.logs) / len(self.logs))

    def after(self, e_values: Sequence[Sequence[float]]) -> CheckEvidence:
        """The evidence after one more round.

        Args:
            e_values: of each sum of the round, by check; always the same checks in the same order.

        Raises:
            UsageError: no sums, a negative value, or other checks than before.
        """
        counts = {len(one) for one in e_values} | ({len(self.logs)} if self.logs else set())
        if (
            not e_values
            or len(counts) != 1
            or 0 in counts
            or any(value < 0 for one in e_values for value in one)
        ):
            raise UsageError(f"no evidence in {list(e_values)} after {len(self.logs)} checks")
        means = [math.fsum(column) / len(e_values) for column in zip(*e_values, strict=True)]
        before = self.logs or (0.0,) * len(means)
        logs = tuple(
            log + (math.log(mean) if mean > 0 else -math.inf) for log, mean in zip(before, means, strict=True)
        )
        now = CheckEvidence(logs).log_now
        return CheckEvidence(logs, max(self.log_highest, now), self.rounds + 1)

    def exceeds(self, alpha: float, of: int = 1) -> bool:
        """Whether it ever reached ``of`` / ``alpha``; ``of``: how many such evidences are watched."""
        return self.log_highest >= math.log(of / alpha)


def gather(
    evidence: Mapping[KeyT, CheckEvidence], sums: Sequence[tuple[Sequence[KeyT], Sequence[float]]]
) -> dict[KeyT, CheckEvidence]:
    """Everybody's evidence after a round.

    Args:
        evidence: before it; who is missing starts at 1.
        sums: the survivors (or the one cluster) that each opened sum is evidence about, and its e-values.
    """
    found: dict[KeyT, list[Sequence[float]]] = {}
    for members, e_values in sums:
        for member in members:
            found.setdefault(member, []).append(e_values)
    after = {member: evidence.get(member, CheckEvidence()).after(values) for member, values in found.items()}
    return {**evidence, **after}
