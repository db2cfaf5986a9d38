"""Release mechanism of an update: rounding, the party's share of the noise, its event (steps 4 and 5).

It follows from a settled scenario and the model's size, so parties, server and simulation agree.
"""

import functools
import math
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from securefl.base.arrays import F64, I64
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError, UsageError
from securefl.methods import clustering, encoding
from securefl.methods.privacy import quantile_clip, release, sensitivity
from securefl.methods.privacy.checks.published import least_std
from securefl.methods.privacy.components import ComponentPlan, SharePlan, plan_components, plan_shares
from securefl.methods.privacy.laws import mu_slack
from securefl.methods.privacy.limits import planned_of
from securefl.methods.privacy.rounding import BoundedRounding
from securefl.methods.privacy.table import (
    MAX_STD,
    MIN_STD,
    WORST_ERROR,
    NoiseTable,
    check_distance,
    noise_table,
)
from securefl.scenario import Scenario


@dataclass(frozen=True, slots=True, eq=False)
class Mechanism:
    """Release mechanism of one scenario and model; made by :func:`mechanism_of`."""

    unit: release.Unit
    rounding: BoundedRounding
    """Rounding whose ``sensitivity``, steps, bounds the change of a sum by one unit. At record level updates
    are rounded without its condition."""
    shares: SharePlan | ComponentPlan
    table: NoiseTable
    """Table of one party's noise, without removable components."""
    components: tuple[NoiseTable, ...]
    """Tables of the removable components (dropout-exact shares), component k at index k - 1."""
    signal: float
    """Bound on the L2 norm of one party's whole rounded signal, steps; the allowance of checks."""
    event: release.ReleaseEvent
    """One release, as an accountant sees it."""
    delta: float
    allowed: int | None
    """Number of releases within the budget; None without a budget."""

    def encode(self, grid: encoding.FixedPoint, values: F64, entropy: Entropy) -> encoding.Encoded:
        """Round an update that has been clipped and weighted, f64 ``(d,)``, in the parameters' unit.

        Raises:
            UsageError: a coordinate that is not finite, or (party level) an update that was not clipped.
        """
        if self.unit == "record":
            return grid.encode(values, entropy)
        scaled, limit = values * float(1 << grid.scale_bits), float(grid.steps)
        saturated = int(np.count_nonzero(np.abs(scaled) > limit))
        return encoding.Encoded(self.rounding.round(np.clip(scaled, -limit, limit), entropy), saturated)

    def noise(self, entropy: Entropy) -> I64:
        """Return one party's noise for one update, i64 ``(d,)``, steps."""
        return self.table.sample(self.rounding.dim, entropy)

    def component(self, number: int, key: bytes) -> I64:
        """Return component ``number`` of removable noise from a 32-byte key, i64 ``(d,)``, steps."""
        return self.components[number - 1].from_key(key, self.rounding.dim)


@functools.lru_cache(maxsize=16)
def mechanism_of(scenario: Scenario, length: int) -> Mechanism | None:
    """Return the mechanism of a scenario and d = ``length`` parameters; None without privacy.

    The scenario is settled, and accepted by :func:`securefl.methods.feasibility.check`.

    Raises:
        ConfigError: the scenario is not settled; its noise does not fit the scale; sampling errors of its
            many draws add up too far; or published checks would reject its grid.
    """
    privacy = scenario.privacy
    if privacy.unit == "none":
        return None
    if not privacy.settled or privacy.delta == "auto":
        raise ConfigError(
            "privacy",
            "is not settled: all parties need the same multiplier, delta, records and number of releases",
            "run securefl dp settle, which writes them into the file",
        )
    rounding = sensitivity.rounding_of(scenario, length)
    shares = None if rounding is None else shares_of(scenario, rounding)
    if rounding is None or shares is None or not _fits(shares):
        raise _unfit(scenario, length, shares)
    _check_grid(scenario, length, shares)
    table, *components = (noise_table(privacy.law, std, "encoding.scale_bits") for std in _stds(shares))
    draws = length * shares.honest
    for one in (table, *components):
        check_distance(
            one, sensitivity.planned_releases(scenario) * draws * (1 + len(components)), privacy.delta
        )
    # With dropout-exact noise, one whole target is unknown to the adversary for any number of survivors.
    std, honest = (shares.target, 1) if components else (shares.share_std, shares.honest)
    event = replace(
        plain_release(scenario),
        noise_multiplier=math.nextafter(
            std / rounding.sensitivity * quantile_clip.combined_multiplier(scenario), 0.0
        ),
        survivors=(honest,) * openings_of(scenario),
        leverage=1.0 if openings_of(scenario) > 1 else None,
        mu_slack=mu_slack(honest * std**2),
        delta_slack=float(draws * math.fsum(one.table_error for one in (table, *components)))
        + (scenario.evaluation.words + quantile_clip.words_of(scenario)) * shares.honest * WORST_ERROR,
    )
    return Mechanism(
        unit=privacy.unit,
        rounding=rounding,
        shares=shares,
        table=table,
        components=tuple(components),
        signal=sensitivity.signal_of(scenario, rounding),
        event=event,
        delta=privacy.delta,
        allowed=privacy.releases,
    )


def openings_of(scenario: Scenario) -> int:
    """Return the number of sums with one update and its noise; with several, the exposure is 1, the worst."""
    return 1 if clustering.works_of(scenario.clustering) > 1 else scenario.clustering.reclusterings


def plain_release(scenario: Scenario) -> release.ReleaseEvent:
    """Return one release as if Gaussian noise of one sensitivity were all unknown noise in its sum.

    Raises:
        UsageError: the scenario lacks a unit or, at record level, DP-SGD or a number of records.
    """
    privacy, dp = scenario.privacy, scenario.training.dp_sgd
    lost = sensitivity.lost_in_rounding(scenario)
    if privacy.unit == "party":
        return release.ReleaseEvent(
            noise_multiplier=1.0, steps=1, mechanism=privacy.law, unit="party", relation=privacy.relation
        )
    if privacy.unit == "none" or dp is None or privacy.records is None:
        raise UsageError(
            "cannot account for a release: the scenario needs a privacy unit, training.dp_sgd and a"
            " number of records"
        )
    return release.ReleaseEvent(
        noise_multiplier=1.0,
        steps=1,
        mechanism=privacy.law,
        unit="record",
        relation=privacy.relation,
        sampler=dp.sampler,
        records=privacy.records,
        batch=scenario.training.batch_size,
        denominator=scenario.training.batch_size,
        delta_lost=lost,
    )


def shares_of(scenario: Scenario, rounding: BoundedRounding) -> SharePlan | ComponentPlan:
    """Return each party's share of the noise; raise a UsageError without a multiplier."""
    privacy, sums = scenario.privacy, scenario.secure_sum
    if privacy.multiplier is None:
        raise UsageError(
            "cannot name the mechanism: privacy.multiplier is not set; settle the scenario's noise first"
        )
    target, f = privacy.multiplier * rounding.sensitivity, sums.colluders_per_cluster
    if privacy.placement == "dropout-exact":
        return plan_components(target, planned_of(scenario), sums.min_survivors, f)
    return plan_shares(privacy.placement, target, sums.min_survivors, f, "privacy.placement")


def _stds(shares: SharePlan | ComponentPlan) -> tuple[float, ...]:
    """Return the standard deviations, steps, of all noise that one party draws."""
    return (shares.share_std, *(shares.stds if isinstance(shares, ComponentPlan) else ()))


def _fits(shares: SharePlan | ComponentPlan) -> bool:
    return all(MIN_STD <= std <= MAX_STD for std in _stds(shares))


def _check_grid(scenario: Scenario, length: int, shares: SharePlan | ComponentPlan) -> None:
    """Raise a ConfigError if the steps are too coarse for noise to pass the published KS test."""
    least = least_std(length)
    if scenario.checks.kind != "published" or shares.share_std >= least:
        return
    fine = _fitting(scenario, length, least)
    raise ConfigError(
        "checks.kind",
        f"the published tests assume continuous noise: at {shares.share_std:.4g} steps they reject honest "
        f"updates; {length} parameters need {least:.4g} steps",
        f'encoding.scale_bits = {min(fine)}, or kind = "corrected"' if fine else 'kind = "corrected"',
    )


def _unfit(scenario: Scenario, length: int, shares: SharePlan | ComponentPlan | None) -> ConfigError:
    """Return the error for noise outside the range of the tables, with the finest scale that fits."""
    fitting = _fitting(scenario, length)
    found = "too long a vector"
    if shares is not None:
        found = f"{' and '.join(f'{std:.4g}' for std in _stds(shares))} steps of noise for each party"
    return ConfigError(
        "encoding.scale_bits",
        f"{scenario.encoding.scale_bits} gives {found}, but noise tables hold {MIN_STD:g} to {MAX_STD:g}",
        f"encoding.scale_bits = {max(fitting)}"
        if fitting
        else "set another multiplier or a smaller model: no scale has this amount of noise",
    )


def multipliers_of(scenario: Scenario, length: int) -> tuple[float, float] | None:
    """Return the smallest and largest multiplier for which some scale has tables; None without such a scale.

    The scenario has a unit and a delta; its own multiplier and scale are ignored.
    """
    unit = msgspec.structs.replace(
        scenario, privacy=msgspec.structs.replace(scenario.privacy, multiplier=1.0, epsilon=None)
    )
    found: list[tuple[float, float]] = []
    for bits in range(encoding.MAX_SCALE_BITS + 1):
        rounding = sensitivity.rounding_of(unit, length, bits)
        if rounding is not None:
            stds = _stds(shares_of(unit, rounding))
            least, most = MIN_STD / min(stds), MAX_STD / max(stds)
            found += [(least, most)] if least <= most else []
    return (min(least for least, _ in found), max(most for _, most in found)) if found else None


def fitting_scale(scenario: Scenario, length: int) -> int:
    """Return the finest scale whose noise needs at most a quarter of the largest tables, or the coarsest.

    The scenario has a unit, a numeric delta and a multiplier.

    Raises:
        ConfigError: no scale has tables for this noise, or noise that its published checks accept.
    """
    least = least_std(length) if scenario.checks.kind == "published" else MIN_STD
    fitting = _fitting(scenario, length, least)
    if not fitting:
        rounding = sensitivity.rounding_of(scenario, length)
        raise _unfit(scenario, length, None if rounding is None else shares_of(scenario, rounding))
    return max(
        (bits for bits in fitting if _largest_std(scenario, length, bits) <= MAX_STD / 4),
        default=min(fitting),
    )


def _largest_std(scenario: Scenario, length: int, bits: int) -> float:
    rounding = sensitivity.rounding_of(scenario, length, bits)
    return math.inf if rounding is None else max(_stds(shares_of(scenario, rounding)))


def _fitting(scenario: Scenario, length: int, least: float = MIN_STD) -> list[int]:
    """Return the scales at which all noise has a table and a share is at least ``least``, coarsest first."""
    fitting = []
    for bits in range(encoding.MAX_SCALE_BITS + 1):
        rounding = sensitivity.rounding_of(scenario, length, bits)
        shares = None if rounding is None else shares_of(scenario, rounding)
        if shares is not None and _fits(shares) and shares.share_std >= least:
            fitting.append(bits)
    return fitting
