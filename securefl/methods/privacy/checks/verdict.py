"""The verdict of a check on one sum."""

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
"""p-values are never reported below: nothing rests on approximations farther out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVerdict:
    """The outcome of one check, or of all of them, on one sum."""

    check: str
    ok: bool
    """Whether ``p_value`` is above the level that the check was given."""
    statistic: float
    """In the check's own unit."""
    threshold: float
    """The sum passes up to here; equality and the last digits are decided by ``p_value``."""
    p_value: float
    """At least the probability that a sum of honest parties looks like this one or worse."""
    false_alarm_rate: float
    """At most this probability of failing has a sum whose members all follow the plan."""
    reason: str
    """One line for people, whether it passes or fails."""


def judge(
    check: str, alpha: float, p_value: float, *, statistic: float, threshold: float, reason: str
) -> CheckVerdict:
    """The verdict that ``p_value`` gives at level ``alpha``."""
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
    """Refuse a level that no p-value could decide.

    Raises:
        UsageError: ``alpha`` outside (1e-12, 1/2].
    """
    if not SMALLEST_P < alpha <= 0.5:
        raise UsageError(f"a false-alarm level lies above {SMALLEST_P:g} and is at most 1/2, not {alpha}")
