"""From an epsilon to numbers that everybody shares: multiplier, delta, records and releases of a scenario.

Whoever starts a run settles its scenario once; all others check it. What comes out is signed by all parties
as part of the configuration, and no party needs an accountant to draw its noise.
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from securefl.config.privacy_limits import check_delta
from securefl.config.scenario import Scenario
from securefl.errors import ConfigError, UsageError
from securefl.privacy.accountant import MIN_DELTA, epsilon
from securefl.privacy.calibration import TOLERANCE, calibrate
from securefl.privacy.discrete import MIN_VARIANCE, mu_slack
from securefl.privacy.guarantee import named
from securefl.privacy.mechanism import Mechanism, mechanism_of, plain_release
from securefl.privacy.sensitivity import planned_releases, rounding_of

WORST_ERROR = 2.0**-50
"""At least the distance of any table from its law: that of 4096 steps is 2^-50.4."""


def settle(scenario: Scenario, length: int, fewest: int | None) -> Scenario:
    """The scenario with all of ``[privacy]`` written out; settling it again changes nothing.

    Args:
        scenario: one that :func:`securefl.config.limits.check` accepts.
        length: d, parameters of the model.
        fewest: records of the party with the fewest; None where nobody has counted them.

    Returns:
        It with ``multiplier``, ``delta``, ``records`` and, with a budget, ``releases``. ``epsilon`` has
        become the budget.

    Raises:
        ConfigError: batch, delta, budget or noise do not fit; dp_accounting is missing where it is needed.
    """
    if scenario.privacy.unit == "none":
        return scenario
    scenario = _with_units(scenario, fewest)
    privacy = scenario.privacy
    if privacy.epsilon is not None:
        multiplier = _calibrated(scenario, length, privacy.epsilon)
        limit = privacy.epsilon if privacy.budget is None else privacy.budget
        privacy = replace(privacy, multiplier=multiplier, epsilon=None, budget=limit)
    budget, releases = privacy.budget, privacy.releases
    # Releases that somebody else worked out are for check_budget to judge.
    if budget is not None and releases is None:
        bare = replace(scenario, privacy=replace(privacy, budget=None))
        releases = allowed_releases(_made(bare, length), budget, planned_releases(scenario))
    settled = replace(scenario, privacy=replace(privacy, releases=releases))
    _made(settled, length)
    return settled


def check_budget(scenario: Scenario, length: int) -> None:
    """Refuse a settled scenario whose releases take more than its budget: a party's own check of the others.

    Raises:
        ConfigError: they do, or dp_accounting is missing.
    """
    mechanism, budget = mechanism_of(scenario, length), scenario.privacy.budget
    if mechanism is None or budget is None or not mechanism.allowed:
        return
    spent = epsilon((mechanism.event.times(mechanism.allowed),), mechanism.delta)
    if not spent <= budget:
        raise ConfigError(
            "privacy.releases",
            f"{mechanism.allowed} releases with this noise spend"
            f" {named(spent, mechanism.event, mechanism.delta)}, more than the budget of {budget:g}",
            "settle the scenario anew, or leave this run",
        )


def allowed_releases(mechanism: Mechanism, budget: float, most: int, path: str = "privacy.budget") -> int:
    """How many releases keep to ``budget``, at most ``most``; ``path``: where the budget was given.

    Raises:
        ConfigError: not even one does, or dp_accounting is missing.
    """

    def spent(count: int) -> float:
        return epsilon((mechanism.event.times(count),), mechanism.delta)

    if spent(most) <= budget:
        return most
    if not spent(1) <= budget:
        raise ConfigError(
            path,
            f"one release spends {named(spent(1), mechanism.event, mechanism.delta)}, more than {budget:g}",
            "more noise, a larger budget, or smaller batches",
        )
    enough, too_many = 1, most
    while too_many - enough > 1:
        middle = (enough + too_many) // 2
        if spent(middle) <= budget:
            enough = middle
        else:
            too_many = middle
    return enough


def _with_units(scenario: Scenario, fewest: int | None) -> Scenario:
    """The scenario with its number of records and its delta."""
    privacy, units = scenario.privacy, scenario.parties
    if privacy.unit == "record":
        units = _records(scenario, fewest)
        privacy = replace(privacy, records=units)
        batch = scenario.training.batch_size
        if batch > units:
            raise ConfigError(
                "training.batch_size",
                f"a batch of {batch} from {units} records, all that some party has",
                f"at most {units}, or fewer parties",
            )
    delta = check_delta(scenario, units)
    if delta < MIN_DELTA:
        reason = f"{delta:g} is too small to account for"
        raise ConfigError("privacy.delta", reason, f"at least {MIN_DELTA:g}")
    return replace(scenario, privacy=replace(privacy, delta=delta))


def _records(scenario: Scenario, fewest: int | None) -> int:
    stated = scenario.privacy.records
    if stated is None:
        if fewest is None:
            raise ConfigError("privacy.records", "nobody has counted the parties' records", "give the fewest")
        return fewest
    if fewest is not None and fewest < stated:
        raise ConfigError(
            "privacy.records",
            f"a party has {fewest} records, fewer than {stated}: its own would be drawn more often",
            f"at most {fewest}",
        )
    return stated


def _calibrated(scenario: Scenario, length: int, target: float) -> float:
    """The multiplier that keeps ``target`` over all planned releases."""
    privacy, planned = scenario.privacy, planned_releases(scenario)
    rounding = rounding_of(scenario, length)
    if rounding is None:
        raise ConfigError("encoding.scale_bits", "updates may be longer than 2^30 steps", "a coarser scale")
    # Noise of h parties counts: as many draws as the largest h makes.
    draws = length * scenario.secure_sum.min_survivors
    plain = dataclasses.replace(plain_release(scenario), delta_slack=WORST_ERROR * draws).times(planned)
    delta = float(privacy.delta) if privacy.delta != "auto" else 0.0
    sigma, _ = calibrate(plain, target, delta, privacy.accountant, path="privacy.epsilon")
    # The slack falls with more noise, so that of less noise is enough.
    sigma *= 1 + mu_slack(max(MIN_VARIANCE, (sigma * rounding.sensitivity) ** 2))
    while True:
        trial = replace(scenario, privacy=replace(privacy, multiplier=sigma, epsilon=None, budget=None))
        event = _made(trial, length).event.times(planned)
        spent = epsilon((event,), delta, privacy.accountant)
        if spent <= target:
            return sigma
        sigma *= 1 + max(TOLERANCE, (spent - target) / target)


def _made(scenario: Scenario, length: int) -> Mechanism:
    mechanism = mechanism_of(scenario, length)
    if mechanism is None:
        raise UsageError("no mechanism without privacy")
    return mechanism
