"""Evidence over rounds: e-values, which may be multiplied and inspected after every round.

An e-value is a nonnegative variable with a mean of at most 1 under the null hypothesis. Noise is fresh in
every round, so products over rounds are e-values too. By Ville's inequality they *ever* reach 1 / alpha with
probability at most alpha (for N parties at once use N / alpha). Dependent e-values of one round are averaged.
Evidence is

- **of a cluster** that stays together, against all its members;
- **of company**, for a party under reclustering, from all sums with it: the hypothesis is that *every party
  that ever shared a sum with it* is honest. It ranks parties, but **proves no party guilty**;
- **of presence** (:func:`presence`), about the party itself. It assumes a bound on Byzantine parties, and
  clusters drawn at random after all parties have committed to taking part. So an honest party's sum fails at
  most as often as it has Byzantine company, even if others deviate to incriminate it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from securefl.base.errors import UsageError

STAKE: Final = 0.25
"""Share of the evidence bet in each round. A bet of all of it would not recover from rounds in which a party
follows the plan."""

PRESENCE_STAKES: Final = (0.25, 0.5, 0.9)
"""Stakes of :func:`presence`, tracked side by side like checks. High ones pay for a party that nearly always
deviates."""

KeyT = TypeVar("KeyT")


def calibrate(p_value: float) -> float:
    """Return the e-value of a p-value: a bet of ``STAKE`` on the mean of k p^(k - 1) over 0 < k < 1.

    Raises:
        UsageError: ``p_value`` outside (0, 1].

    Source: Vovk and Wang 2021, "E-values: calibration, combination and applications" (arXiv 1912.06116).
    """
    if not 0 < p_value <= 1:
        raise UsageError(f"p_value must be above 0 and at most 1, found {p_value}")
    log = math.log(p_value)
    # (1 - p + p ln p) / (p ln^2 p); near p = 1 its series, since digits cancel there.
    mixed = 0.5 - log / 6 if log > -1e-4 else (-math.expm1(log) + p_value * log) / (p_value * log * log)
    return 1 - STAKE + STAKE * mixed


def presence(failed: bool, company: float, alpha: float, stake: float = STAKE) -> float:
    """Return the e-value of one sum for "this party is honest".

    ``failed`` is True if its family of checks failed. The bet of ``stake``, in (0, 1), is fair if the sum of
    an honest party fails with probability ``company`` + ``alpha``. Here ``company`` bounds P(an honest party
    shares a sum with a Byzantine one), as ``odds.tail(N - 1, q, m - 1, 1)`` for q Byzantine parties of N in
    clusters of m, and ``alpha`` bounds P(a sum of honest parties fails).

    Raises:
        UsageError: probabilities out of range.
    """
    if not (0 <= company <= 1 and 0 < alpha < 1 and 0 < stake < 1):
        raise UsageError(
            f"company must be in [0, 1], alpha and stake in (0, 1); found company {company}, alpha"
            f" {alpha}, stake {stake}"
        )
    chance = company + alpha
    if chance >= 1:
        return 1.0
    return 1 - stake + stake / chance if failed else 1 - stake


@dataclass(frozen=True, slots=True)
class CheckEvidence:
    """Products of e-values over rounds, one per check, and their mean, which is an e-value product too.

    A check that finds a little in every round grows; those that find nothing only cost their share of the
    mean.
    """

    logs: tuple[float, ...] = ()
    """Logarithms of the products, which would overflow floats."""
    log_highest: float = 0.0
    """Highest value of the mean so far, which Ville's inequality bounds."""
    rounds: int = 0

    @property
    def log_now(self) -> float:
        """Logarithm of the mean."""
        highest = max(self.logs, default=0.0)
        if not self.logs or not math.isfinite(highest):
            return highest
        return highest + math.log(math.fsum(math.exp(log - highest) for log in self.logs) / len(self.logs))

    def after(self, e_values: Sequence[Sequence[float]]) -> CheckEvidence:
        """Return the evidence after one more round.

        Args:
            e_values: for each sum of the round, by check, in the same order in every round.

        Raises:
            UsageError: no sums, a negative value, or a different number of checks.
        """
        counts = {len(one) for one in e_values} | ({len(self.logs)} if self.logs else set())
        if (
            not e_values
            or len(counts) != 1
            or 0 in counts
            or any(value < 0 for one in e_values for value in one)
        ):
            raise UsageError(
                f"e_values must give each sum a value >= 0 for each of {len(self.logs) or '1 or more'}"
                f" checks; found {list(e_values)}"
            )
        means = [math.fsum(column) / len(e_values) for column in zip(*e_values, strict=True)]
        before = self.logs or (0.0,) * len(means)
        logs = tuple(
            log + (math.log(mean) if mean > 0 else -math.inf) for log, mean in zip(before, means, strict=True)
        )
        now = CheckEvidence(logs).log_now
        return CheckEvidence(logs, max(self.log_highest, now), self.rounds + 1)

    def exceeds(self, alpha: float, of: int = 1) -> bool:
        """Return True if the evidence ever reached ``of`` / ``alpha``, for ``of`` simultaneous tests."""
        return self.log_highest >= math.log(of / alpha)


def gather(
    evidence: Mapping[KeyT, CheckEvidence], sums: Sequence[tuple[Sequence[KeyT], Sequence[float]]]
) -> dict[KeyT, CheckEvidence]:
    """Return the evidence of all keys after a round.

    Args:
        evidence: before the round; missing keys start at 1.
        sums: for each opened sum, its survivors (or its cluster), and its e-values.
    """
    found: dict[KeyT, list[Sequence[float]]] = {}
    for members, e_values in sums:
        for member in members:
            found.setdefault(member, []).append(e_values)
    after = {member: evidence.get(member, CheckEvidence()).after(values) for member, values in found.items()}
    return {**evidence, **after}
