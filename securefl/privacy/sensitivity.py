"""How far one unit moves the integers that a party adds its noise to.

Lengths are in steps: 1 step = 2^-scale_bits of the parameters' own unit.

**Record level.** An update is a sum of per-example gradients of norm at most C, over b. Clip and range are
projections, which bring no two vectors further apart, and all weights are 1. So one record moves the vector
before rounding by at most c = C / b. Rounded with the same secret offsets, two such vectors differ by a
stochastic rounding of their difference, whose norm is within the bound of
:class:`securefl.privacy.rounding.BoundedRounding` except with probability beta. That comes off delta in each
release; twice under replace-one, where two differences count.

**Party level.** The whole update is clipped to c, and rounded until it keeps to the same bound. A public
weight of at most 1 makes it no longer.
"""

from __future__ import annotations

import math

from securefl.config.scenario import Scenario
from securefl.config.sizes import works_of
from securefl.errors import UsageError
from securefl.privacy.release import SENSITIVITY
from securefl.privacy.rounding import DEFAULT_BETA, MAX_LENGTH, BoundedRounding

LOST_SHARE = 1e-3
"""Share of delta that rounding beyond the bound may take, over the whole run (record level)."""

RARE = 1e-9
"""Probability that an honest party's signal is larger than checks allow for, each time."""


def planned_releases(scenario: Scenario) -> int:
    """Updates that a party releases if it takes part in every round."""
    return scenario.stop.rounds * works_of(scenario)


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
    norm = _norm(scenario) * 2.0**bits
    if norm + math.sqrt(length) > MAX_LENGTH:
        return None
    beta = DEFAULT_BETA
    if scenario.privacy.unit == "record":
        beta = lost_in_rounding(scenario) / SENSITIVITY[scenario.privacy.relation]
    return BoundedRounding(norm, length, beta)


def lost_in_rounding(scenario: Scenario) -> float:
    """Probability per release that rounding exceeds its bound; comes off delta."""
    delta = scenario.privacy.delta
    if scenario.privacy.unit != "record" or delta == "auto":
        return 0.0
    return LOST_SHARE * delta / planned_releases(scenario)


def signal_of(scenario: Scenario, rounding: BoundedRounding) -> float:
    """Bound on the L2 norm of what one honest party uploads before the noise, steps.

    Record level: of its largest batch, whose size under Poisson sampling, and whose rounding, exceed what is
    taken here with a probability of at most 2e-9 each time.

    Raises:
        UsageError: it is not known of how many records.
    """
    privacy, dp, batch = scenario.privacy, scenario.training.dp_sgd, scenario.training.batch_size
    if privacy.unit == "party" or dp is None:
        return rounding.sensitivity
    if privacy.records is None:
        raise UsageError("it is not known of how many records batches are drawn")
    most = batch if dp.sampler == "fixed-size" else _most_drawn(privacy.records, batch)
    return BoundedRounding(most * rounding.norm, rounding.dim, RARE).sensitivity


def _most_drawn(records: int, batch: int) -> int:
    """A size that batches of so many expected records exceed with a probability of at most ``RARE``.

    Chernoff's bound: P(at least k) <= exp(-records KL(k / records, batch / records)).
    """
    rate = batch / records
    for most in range(batch, records):
        share = (most + 1) / records
        exponent = share * math.log(share / rate)
        if share < 1:
            exponent += (1 - share) * math.log((1 - share) / (1 - rate))
        if records * exponent >= -math.log(RARE):
            return most
    return records


def _norm(scenario: Scenario) -> float:
    """The bound before rounding in the parameters' own unit."""
    dp, clip = scenario.training.dp_sgd, scenario.encoding.clip
    if scenario.privacy.unit == "record" and dp is not None:
        return dp.norm / scenario.training.batch_size
    if scenario.privacy.unit == "party" and clip != "none":
        return clip
    raise UsageError("nothing bounds what one unit adds: the scenario was not checked")
