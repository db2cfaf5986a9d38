"""Numbers that may stop a run or choose its best model, and the smallest gain that counts."""

from securefl.methods.metrics.derived import bounds_of
from securefl.methods.metrics.pooling import Measured
from securefl.scenario import Scenario

GAIN_WITH_NOISE = 0.01
"""Default of ``stop.min_gain`` with noise, as a share of the metric's range."""


def gain_of(scenario: Scenario) -> float:
    """Return the gain of ``stop.metric`` beyond which a value counts as better, in its unit.

    It is ``stop.min_gain``; by default 0, or a hundredth of the metric's range with noise.
    """
    stop = scenario.stop
    if stop.min_gain is not None:
        return stop.min_gain
    if scenario.privacy.unit == "none" or stop.metric is None:
        return 0.0
    low, high = bounds_of(scenario.evaluation, scenario.parties)[stop.metric]
    return GAIN_WITH_NOISE * (high - low)


def why_unused(scenario: Scenario, one: Measured | None) -> str:
    """Return the reason why noise prevents the use of ``stop.metric`` for stopping and the best model, or "".

    The standard deviation by noise must be at most :func:`gain_of`, and half the distance to the nearer end
    of the range. The number ``one`` is None if the round's samples did not exceed the noise on them.
    """
    if one is None:
        noisy = scenario.stop.metric is not None and scenario.privacy.unit != "none"
        return "its samples do not exceed the noise on them" if noisy else ""
    if not one.deviation:
        return ""
    gain = gain_of(scenario)
    low, high = bounds_of(scenario.evaluation, scenario.parties)[one.name]
    if one.deviation > gain:
        return f"its deviation by noise is {one.deviation:.3g}, and stop.min_gain is {gain:.3g}"
    end, distance = min(((low, one.value - low), (high, high - one.value)), key=lambda found: found[1])
    if one.deviation > distance / 2:
        return f"its deviation by noise is {one.deviation:.3g}, over half its distance to {end:.3g}"
    return ""


def is_better(one: Measured, best: float | None, gain: float) -> bool:
    """Return True if a value is better than the best one so far by more than ``gain``."""
    if best is None:
        return True
    return one.value > best + gain if one.higher else one.value < best - gain
