"""All checks on all sums of a round, with one false-alarm rate (step 12).

Bonferroni's correction within a sum and Holm's procedure over the sums hold under any dependence. So a round
rejects *any* sum whose members all follow the plan with probability at most alpha, whatever dishonest sums
contain. Over T rounds that is T alpha; for long runs see :mod:`securefl.methods.privacy.checks.evidence`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from securefl.base.arrays import F64, I64
from securefl.base.errors import UsageError
from securefl.methods.privacy.checks import distribution, energy, outliers, verdict
from securefl.methods.privacy.checks.evidence import calibrate
from securefl.methods.privacy.checks.null import Null
from securefl.methods.privacy.checks.projection import projection
from securefl.methods.privacy.laws import NoiseLaw

Check = Callable[[I64, Null, float], verdict.CheckVerdict]

CHECKS: Final[tuple[Check, ...]] = (
    energy.noise_floor,
    energy.excess_energy,
    distribution.magnitudes,
    distribution.coordinates,
    outliers.maximum,
    outliers.tail_counts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """Parameters of the checks: the agreed noise, norm and false-alarm rate."""

    law: NoiseLaw
    std: float | Callable[[int], float]
    """Standard deviation of each party's noise, steps; a function if it depends on the number of
    survivors."""
    member_norm: float
    """Bound on the L2 norm of one party's signal after rounding, steps."""
    alpha: float = 0.01
    """Probability that a round rejects any honest sum."""

    def null(self, survivors: int) -> Null:
        """Return the null hypothesis for ``survivors`` honest parties, whose signals may align.

        Raises:
            UsageError: no law for such a sum.
        """
        std = self.std(survivors) if callable(self.std) else self.std
        return Null(self.law, std, survivors, survivors * self.member_norm)


@dataclass(frozen=True, slots=True, eq=False)
class OpenedSum:
    """One opened sum."""

    values: I64
    """Coordinates, i64 ``(d,)``, steps."""
    survivors: int
    """Number of parties whose upload is in the sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumVerdict:
    """Verdict of a round on one of its sums."""

    family: verdict.CheckVerdict
    """Verdict over all checks. Statistic and threshold are -log10 of the p-value, already multiplied by the
    number of checks, and of Holm's level for this sum."""
    checks: tuple[verdict.CheckVerdict, ...]
    """Each check by itself, at its share of ``alpha``."""
    e_values: tuple[float, ...]
    """Evidence against the sum by kind of check (``KINDS``); for ``projection`` the mean over references,
    else 1."""

    @property
    def ok(self) -> bool:
        """True if the sum is accepted."""
        return self.family.ok


def check_sums(
    sums: Sequence[OpenedSum], plan: CheckPlan, references: Sequence[F64] = ()
) -> tuple[SumVerdict, ...]:
    """Judge all opened sums of one round, in their order.

    Each of ``references`` adds a projection check to every sum: a direction, f64 ``(d,)``, independent of
    this round's noise, as from the last round.

    Raises:
        UsageError: values of the wrong dtype or shape, no parties in a sum, or a plan out of range.
    """
    count = len(CHECKS) + len(references)
    verdict.check_level(plan.alpha / max(1, len(sums) * count))
    found = [_each(one, plan, references, plan.alpha / (len(sums) * count)) for one in sums]
    p_values = [min(1.0, count * min(check.p_value for check in checks)) for checks in found]
    levels = holm_levels(p_values, plan.alpha)
    return tuple(
        _together(checks, p_value, level, plan.alpha)
        for checks, p_value, level in zip(found, p_values, levels, strict=True)
    )


def holm_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """Return the level of each hypothesis, which is rejected if its p-value is at most its level.

    The k-th smallest of n p-values is tested at ``alpha`` / (n - k + 1); all after the first accepted one are
    accepted too.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    levels = [0.0] * len(p_values)
    stuck = 0.0
    for place, index in enumerate(order):
        level = stuck or alpha / (len(p_values) - place)
        levels[index] = level
        if p_values[index] > level:
            stuck = level
    return levels


def _each(
    one: OpenedSum, plan: CheckPlan, references: Sequence[F64], alpha: float
) -> tuple[verdict.CheckVerdict, ...]:
    if one.survivors < 1:
        raise UsageError(f"survivors of a sum must be at least 1, found {one.survivors}")
    null = plan.null(one.survivors)
    return (
        *(check(one.values, null, alpha) for check in CHECKS),
        *(projection(one.values, reference, null, alpha) for reference in references),
    )


def _together(
    checks: tuple[verdict.CheckVerdict, ...], p_value: float, level: float, alpha: float
) -> SumVerdict:
    worst = min(checks, key=lambda check: check.p_value)
    family = verdict.judge(
        "all checks",
        level,
        p_value,
        statistic=math.log10(1 / p_value),
        threshold=math.log10(1 / level),
        reason=f"{worst.check}: {worst.reason}",
    )
    # Holm's level is for this sum; the false-alarm rate is that of the whole round.
    family = replace(family, false_alarm_rate=alpha)
    return SumVerdict(
        family=family, checks=checks, e_values=tuple(_e_value(checks, kind) for kind in verdict.KINDS)
    )


def _e_value(checks: tuple[verdict.CheckVerdict, ...], kind: str) -> float:
    found = [calibrate(check.p_value) for check in checks if check.check == kind]
    return math.fsum(found) / len(found) if found else 1.0
