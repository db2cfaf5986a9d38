"""Verdict of a check on one sum."""

from dataclasses import dataclass

from securefl.base.errors import UsageError

KINDS = (
    "noise floor",
    "excess energy",
    "magnitudes",
    "coordinates",
    "maximum",
    "tail counts",
    "projection",
)
"""Names of the checks, in their order."""

SMALLEST_P = 1e-12
"""Smallest p-value reported: the approximations are not relied on farther out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVerdict:
    """Outcome of one check, or of all checks, on one sum."""

    check: str
    ok: bool
    """True if ``p_value`` is above the level of the check."""
    statistic: float
    """In the check's own unit."""
    threshold: float
    """Largest statistic that passes; ``p_value`` decides equality and the last digits."""
    p_value: float
    """Upper bound on the probability that a sum of honest parties is at least as extreme."""
    false_alarm_rate: float
    """Upper bound on the probability that a sum fails whose members all follow the plan."""
    reason: str
    """One-line explanation for users, whether the sum passes or fails."""


def judge(
    check: str, alpha: float, p_value: float, *, statistic: float, threshold: float, reason: str
) -> CheckVerdict:
    """Return the verdict of ``p_value`` at level ``alpha``."""
    p_value = min(1.0, max(SMALLEST_P, p_value))
    return CheckVerdict(
        check=check,
        ok=p_value > alpha,
        statistic=float(statistic),
        threshold=float(threshold),
        p_value=p_value,
        false_alarm_rate=alpha,
        reason=reason,
    )


def check_level(alpha: float) -> None:
    """Raise a UsageError unless ``alpha`` is in (1e-12, 1/2], where p-values can decide."""
    if not SMALLEST_P < alpha <= 0.5:
        raise UsageError(
            f"alpha, the false-alarm level, must be above {SMALLEST_P:g} and at most 1/2, found {alpha}"
        )
