"""Sensitivity: how far one unit moves the integers that a party adds its noise to.

Lengths are in steps: 1 step = 2^-scale_bits of the parameters' own unit.

**Record level.** An update is a sum of per-example gradients of norm at most C, over b. Clip and range are
projections, which bring no two vectors further apart, and all weights are 1. So one record moves the vector
before rounding by its own C / b, and every other record of the batch by what its gradient's single-precision
rounding depends on company, :data:`COMPANY` of C / b: c = (1 + k 2^-20) C / b. Batches of more than k others
have probability beta. Rounded with the same secret offsets, two such vectors differ by a stochastic rounding
of their difference, whose norm is within the bound of
:class:`securefl.methods.privacy.rounding.BoundedRounding` except with probability beta, too. Both come off
delta in each release; twice under replace-one and with batches of fixed size, in which a record that is drawn
displaces another: there two differences count.

**Party level.** The whole update is clipped to c, and rounded until it keeps to the same bound. A public
weight of at most 1 makes it no longer.
"""

from __future__ import annotations

import math

from securefl.base.errors import UsageError
from securefl.methods.clustering import works_of
from securefl.methods.privacy.release import SENSITIVITY
from securefl.methods.privacy.rounding import DEFAULT_BETA, MAX_LENGTH, BoundedRounding
from securefl.scenario import Scenario

LOST_SHARE = 1e-3
"""Share of delta that rounding beyond the bound, and batches beyond what is reckoned with, may take over the
whole run (record level): half of it each."""

COMPANY = 2.0**-20
"""How far an example's bounded gradient may move, over C, when its batch has one example more: three times
the most that was measured at ordinary parameters (docs/adr/0013-per-example-gradients.md)."""

RARE = 1e-9
"""Probability that an honest party's signal is larger than checks allow for, each time."""


def planned_releases(scenario: Scenario) -> int:
    """Updates that a party releases if it takes part in every round."""
    return scenario.stop.rounds * works_of(scenario.clustering)


def rounding_of(scenario: Scenario, length: int, scale_bits: int | None = None) -> BoundedRounding | None:
    """The bound on what one unit adds, before rounding and after it.

    Args:
        scenario: with a unit, and with a delta that is a number.
        length: d.
        scale_bits: instead of the scenario's.

    Returns:
        None where such vectors are longer than 2^30 steps.
    """
    bits = scenario.encoding.scale_bits if scale_bits is None else scale_bits
    beta = DEFAULT_BETA
    if scenario.privacy.unit == "record":
        beta = lost_in_rounding(scenario) / (2 * _differences(scenario))
    norm = _norm(scenario, beta) * 2.0**bits
    if norm + math.sqrt(length) > MAX_LENGTH:
        return None
    return BoundedRounding(norm, length, beta)


def lost_in_rounding(scenario: Scenario) -> float:
    """Probability per release that rounding or the batch exceeds its bound; comes off delta."""
    delta = scenario.privacy.delta
    if scenario.privacy.unit != "record" or delta == "auto":
        return 0.0
    return LOST_SHARE * delta / planned_releases(scenario)


def _differences(scenario: Scenario) -> int:
    """The distance of neighbouring batches in records' lengths; beta counts for each of them."""
    dp = scenario.training.dp_sgd
    displaces = dp is not None and dp.sampler == "fixed-size"
    return 2 if displaces else SENSITIVITY[scenario.privacy.relation]


def signal_of(scenario: Scenario, rounding: BoundedRounding) -> float:
    """Bound on the L2 norm of what one honest party uploads before the noise, steps.

    Record level: of its largest batch, whose size under Poisson sampling, and whose rounding, exceed what is
    taken here with a probability of at most 2e-9 each time.
    """
    privacy, dp, batch = scenario.privacy, scenario.training.dp_sgd, scenario.training.batch_size
    if privacy.unit == "party" or dp is None:
        return rounding.sensitivity
    most = batch if dp.sampler == "fixed-size" else _most_drawn(batch, RARE)
    longest = most * rounding.norm + math.sqrt(rounding.dim)
    if longest > MAX_LENGTH:
        return longest
    return BoundedRounding(most * rounding.norm, rounding.dim, RARE).sensitivity


def _most_drawn(batch: int, beta: float) -> int:
    """A size that Poisson batches of so many expected records exceed with a probability of at most ``beta``.

    Whatever number of records a party draws them from: Chernoff's bound for a Poisson variable,
    P(at least k) <= exp(-(k ln(k / b) - k + b)), which no binomial one of this mean exceeds.
    """
    most = batch
    while (most + 1) * math.log((most + 1) / batch) - (most + 1) + batch < -math.log(beta):
        most += 1
    return most


def _norm(scenario: Scenario, beta: float) -> float:
    """The bound before rounding in the parameters' own unit; record level: exceeded with probability beta."""
    dp, clip = scenario.training.dp_sgd, scenario.encoding.clip
    if scenario.privacy.unit == "record" and dp is not None:
        batch = scenario.training.batch_size
        most = batch if dp.sampler == "fixed-size" else _most_drawn(batch, beta)
        return dp.norm / batch * (1 + most * COMPANY)
    if scenario.privacy.unit == "party" and clip != "none":
        return clip
    raise UsageError("nothing bounds what one unit adds: the scenario was not checked")
