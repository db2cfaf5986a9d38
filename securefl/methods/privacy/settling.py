"""Conversion of an epsilon into numbers that all parties share: multiplier, delta, records and releases.

The party that starts a run settles its scenario once; all others check and sign it. No party needs an
accountant to draw its noise.
"""

import dataclasses
import math
from fractions import Fraction

from msgspec.structs import replace

from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy import accountant, calibration, laws, quantile_clip, sensitivity
from securefl.methods.privacy.limits import check_delta, components_of, planned_of
from securefl.methods.privacy.mechanism import (
    Mechanism,
    fitting_scale,
    mechanism_of,
    multipliers_of,
    plain_release,
)
from securefl.methods.privacy.release import ReleaseEvent
from securefl.methods.privacy.spending import describe_epsilon
from securefl.methods.privacy.table import WORST_ERROR, added_delta
from securefl.scenario import Scenario

RESERVE = 2.0**-50
"""Assumed distance of a draw from its law if its cost is negligible. Tables are far closer; another value
would change the multipliers of settled scenarios."""

SHARE = 100
"""Inverse of the largest part of delta for the distance of all draws."""


def settle(scenario: Scenario, length: int, fewest: int | None) -> Scenario:
    """Return the scenario with all of ``[privacy]`` explicit; settling it again changes nothing.

    It gets ``multiplier``, ``delta``, ``records`` and, with a budget, ``releases``; ``epsilon`` becomes the
    budget. The scenario must pass :func:`securefl.methods.feasibility.limits.check`. Its model has ``length``
    parameters; ``fewest`` is the number of records of the smallest party, None if unknown.

    Raises:
        ConfigError: batch, delta, budget or noise do not fit; or dp_accounting is needed and missing.
    """
    if scenario.privacy.unit == "none":
        return scenario
    scenario = _with_units(scenario, fewest)
    privacy = scenario.privacy
    if privacy.epsilon is not None:
        multiplier = _calibrate(scenario, length, privacy.epsilon)
        limit = privacy.epsilon if privacy.budget is None else privacy.budget
        privacy = replace(privacy, multiplier=multiplier, epsilon=None, budget=limit)
    budget, releases = privacy.budget, privacy.releases
    # check_budget judges a number of releases that another party computed.
    if budget is not None and releases is None:
        bare = replace(scenario, privacy=replace(privacy, budget=None))
        releases = allowed_releases(
            _make_mechanism(bare, length), budget, sensitivity.planned_releases(scenario)
        )
    settled = replace(scenario, privacy=replace(privacy, releases=releases))
    _make_mechanism(settled, length)
    return settled


def fit_scale(scenario: Scenario, length: int) -> Scenario:
    """Return a scenario, which has an epsilon at party level, with ``encoding.scale_bits`` for its noise.

    The finest scale is taken whose noise needs at most a quarter of the largest tables, so that a somewhat
    smaller epsilon fits, too; otherwise the coarsest that has tables. Its model has ``length`` parameters.

    Raises:
        ConfigError: no scale has tables for this noise (it names an epsilon that fits), or dp_accounting is
            missing.
    """
    if scenario.privacy.epsilon is None:
        raise UsageError("cannot fit a scale: privacy.epsilon is not set")
    known = _with_units(scenario, None)
    multiplier = _first_multiplier(known, length, scenario.privacy.epsilon)
    trial = replace(known, privacy=replace(known.privacy, multiplier=multiplier, epsilon=None))
    encoding = replace(scenario.encoding, scale_bits=fitting_scale(trial, length))
    _make_mechanism(replace(trial, encoding=encoding), length)
    return replace(scenario, encoding=encoding)


def check_budget(scenario: Scenario, length: int) -> None:
    """Check that the releases of a settled scenario, which another party computed, keep to its budget.

    Raises:
        ConfigError: they exceed it, or dp_accounting is missing.
    """
    mechanism, budget = mechanism_of(scenario, length), scenario.privacy.budget
    if mechanism is None or budget is None or not mechanism.allowed:
        return
    spent = _spent(mechanism, mechanism.allowed, budget)
    if not spent <= budget:
        raise ConfigError(
            "privacy.releases",
            f"{mechanism.allowed} releases with this noise spend"
            f" {describe_epsilon(spent, mechanism.event, mechanism.delta)},"
            f" more than the budget of {budget:g}",
            "settle the scenario again, or do not join this run",
        )


def allowed_releases(mechanism: Mechanism, budget: float, most: int, path: str = "privacy.budget") -> int:
    """Return the number of releases within ``budget``, at most ``most``; errors name ``path``.

    Raises:
        ConfigError: one release exceeds it, or dp_accounting is missing.
    """

    def spent(count: int) -> float:
        return _spent(mechanism, count, budget)

    if spent(most) <= budget:
        return most
    if not spent(1) <= budget:
        raise ConfigError(
            path,
            f"one release spends {describe_epsilon(spent(1), mechanism.event, mechanism.delta)},"
            f" more than {budget:g}",
            "set more noise, a larger budget, or smaller batches",
        )
    enough, too_many = 1, most
    while too_many - enough > 1:
        middle = (enough + too_many) // 2
        if spent(middle) <= budget:
            enough = middle
        else:
            too_many = middle
    return enough


def _spent(mechanism: Mechanism, count: int, budget: float) -> float:
    """Return the epsilon of ``count`` releases; above ``budget`` the smaller of both accountants' bounds."""
    event = mechanism.event.times(count)
    found = accountant.epsilon((event,), mechanism.delta)
    return found if found <= budget else min(found, accountant.epsilon((event,), mechanism.delta, "rdp"))


def _with_units(scenario: Scenario, fewest: int | None) -> Scenario:
    """Return the scenario with its number of records and its delta."""
    privacy, units = scenario.privacy, scenario.parties
    if privacy.unit == "record":
        units = _records(scenario, fewest)
        privacy = replace(privacy, records=units)
        batch = scenario.training.batch_size
        if batch > units:
            raise ConfigError(
                "training.batch_size",
                f"is {batch}, more than the {units} records of the smallest party",
                f"set it to at most {units}, or use fewer parties",
            )
    delta = check_delta(scenario.privacy, units)
    if delta < accountant.MIN_DELTA:
        reason = f"{delta:g} is too small to compute with"
        raise ConfigError("privacy.delta", reason, f"at least {accountant.MIN_DELTA:g}")
    return replace(scenario, privacy=replace(privacy, delta=delta))


def _records(scenario: Scenario, fewest: int | None) -> int:
    stated = scenario.privacy.records
    if stated is None:
        if fewest is None:
            raise ConfigError(
                "privacy.records",
                "is missing: the number of records of the parties is unknown",
                "set the smallest one",
            )
        return fewest
    if fewest is not None and fewest < stated:
        raise ConfigError(
            "privacy.records",
            f"is {stated}, but a party has only {fewest} records: each would be used too often",
            f"at most {fewest}",
        )
    return stated


def _calibrate(scenario: Scenario, length: int, target: float) -> float:
    """Return the multiplier that keeps ``target`` over all planned releases."""
    privacy, planned = scenario.privacy, sensitivity.planned_releases(scenario)
    delta, sigma = _delta_of(scenario), _first_multiplier(scenario, length, target)
    while True:
        trial = replace(scenario, privacy=replace(privacy, multiplier=sigma, epsilon=None, budget=None))
        event = _make_mechanism(trial, length).event.times(planned)
        spent = accountant.epsilon((event,), delta, privacy.accountant)
        if spent <= target:
            return sigma
        if not math.isfinite(spent):
            raise ConfigError(
                "privacy.epsilon",
                f"noise of multiplier {sigma:.4g}, made for epsilon = {target:g}, has no finite epsilon",
                "a smaller epsilon, or a larger delta",
            )
        sigma *= 1 + max(calibration.TOLERANCE, (spent - target) / target)


def _first_multiplier(scenario: Scenario, length: int, target: float) -> float:
    """Return the multiplier that keeps ``target`` before the errors of the noise tables are known."""
    privacy, planned = scenario.privacy, sensitivity.planned_releases(scenario)
    rounding = sensitivity.rounding_of(scenario, length)
    if rounding is None:
        raise ConfigError(
            "encoding.scale_bits",
            "updates can be longer than 2^30 steps",
            "set a smaller encoding.scale_bits",
        )
    delta = _delta_of(scenario)
    slack = _slack(scenario, length, target, delta)
    plain = dataclasses.replace(plain_release(scenario), delta_slack=slack).times(planned)
    sigma, _ = calibration.calibrate(plain, target, delta, privacy.accountant, path="privacy.epsilon")
    # The slack decreases with more noise, so that of the smaller noise is enough.
    sigma *= 1 + laws.mu_slack(max(laws.MIN_VARIANCE, (sigma * rounding.sensitivity) ** 2))
    sigma = quantile_clip.of_updates(scenario, sigma)
    _check_within_tables(scenario, length, plain, sigma)
    return sigma


def _check_within_tables(scenario: Scenario, length: int, plain: ReleaseEvent, sigma: float) -> None:
    """Raise a ConfigError that names an epsilon that fits, if no scale has tables for the noise."""
    limits = multipliers_of(scenario, length)
    if limits is None or limits[0] <= sigma <= limits[1]:
        # Another scale may fit; mechanism_of names it.
        return
    privacy, most = scenario.privacy, sigma > limits[1]
    edge = limits[1] if most else limits[0] / (1 + laws.mu_slack(laws.MIN_VARIANCE))
    event, delta = dataclasses.replace(plain, noise_multiplier=edge), _delta_of(scenario)
    found = accountant.quick_epsilon((event,), delta)
    fewer = "fewer stop.rounds, or a smaller model"
    if found <= calibration.MAX_EPSILON:
        found = accountant.epsilon((event,), delta, privacy.accountant)
        remedy = f"set at least {_upwards(found)}, {fewer}" if most else f"set at most {_downwards(found)}"
    else:
        remedy = f"use {fewer}" if most else f"set at most {calibration.MAX_EPSILON:g}"
    raise ConfigError(
        "privacy.epsilon",
        f"{privacy.epsilon:g} over {sensitivity.planned_releases(scenario)} releases needs a multiplier of"
        f" {sigma:.4g}, but for {length} parameters the noise tables end at {edge:.4g}",
        remedy,
    )


def _upwards(found: float) -> str:
    unit = 10.0 ** (math.floor(math.log10(found)) - 2)
    return f"{math.ceil(1.002 * found / unit) * unit:.3g}"


def _downwards(found: float) -> str:
    unit = 10.0 ** (math.floor(math.log10(found)) - 2)
    return f"{math.floor(0.998 * found / unit) * unit:.3g}"


def _slack(scenario: Scenario, length: int, target: float, delta: float) -> float:
    """Return the distance of one release's noise from its law assumed before the noise is known.

    Raises:
        ConfigError: the distance of all releases exceeds its share of delta.
    """
    # The noise of h parties counts, and each may draw several components.
    sums, planned, most = scenario.secure_sum, sensitivity.planned_releases(scenario), delta / SHARE
    reserved = RESERVE * length * sums.min_survivors
    if added_delta(Fraction(reserved) * planned, target) <= most:
        return reserved
    draws = length * max(sums.min_survivors, planned_of(scenario) * (1 + components_of(scenario)))
    if added_delta(Fraction(WORST_ERROR) * draws * planned, target) <= most:
        return WORST_ERROR * draws
    largest = math.log(max(1.0, most / (WORST_ERROR * draws * planned) - 1))
    raise ConfigError(
        "privacy.epsilon",
        f"{target:g} is too large for delta = {delta:.3g}: rounding {draws * planned:.3g} draws of noise"
        " takes more than a hundredth of it",
        f"set at most {math.floor(100 * largest) / 100:g}, or fewer stop.rounds"
        if largest >= calibration.MIN_EPSILON
        else "set fewer stop.rounds, or a larger privacy.delta",
    )


def _delta_of(scenario: Scenario) -> float:
    """Return the delta of a scenario; if it is not settled yet, raise a UsageError."""
    if scenario.privacy.delta == "auto":
        raise UsageError('cannot use privacy.delta: it is still "auto"; settle the scenario\'s noise first')
    return float(scenario.privacy.delta)


def _make_mechanism(scenario: Scenario, length: int) -> Mechanism:
    mechanism = mechanism_of(scenario, length)
    if mechanism is None:
        raise UsageError("cannot calibrate noise: the scenario has no privacy unit; set [privacy] unit")
    return mechanism
