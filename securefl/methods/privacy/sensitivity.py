"""Sensitivity: the most by which one unit changes the integers to which a party adds its noise, in steps.

**Record level.** An update is a sum of per-example gradients of norm at most C, over b. Clip and range are
projections, all weights are 1, and gradients of other records do not change by a bit
(docs/adr/0013-per-example-gradients.md). So one record moves the vector before rounding by c = (1 + e) C / b,
with e by :func:`sum_error` for k records. Batches of more than k records have probability beta.

Rounded with the same secret offsets, two such vectors differ by a stochastic rounding of their difference.
Its norm exceeds the bound of :class:`securefl.methods.privacy.rounding.BoundedRounding` with probability
beta, too. Each release subtracts both from delta, twice under replace-one and with fixed-size batches, in
which a drawn record displaces another.

**Party level.** The whole update is clipped to c, and rounded until it is within the same bound. A public
weight of at most 1 does not lengthen it.
"""

import math
from typing import Literal

from securefl.base.errors import UsageError
from securefl.methods import clustering
from securefl.methods.privacy.release import SENSITIVITY
from securefl.methods.privacy.rounding import DEFAULT_BETA, MAX_LENGTH, BoundedRounding
from securefl.scenario import Scenario

LOST_SHARE = 1e-3
"""Share of delta, over a whole run at record level: half for rounding beyond the bound, half for oversized
batches."""

OVERFULL = 2.0**-64
"""Probability that a batch has more records than slots."""

RARE = 1e-9
"""Probability that an honest party's signal exceeds the allowance of checks, each time."""


def planned_releases(scenario: Scenario) -> int:
    """Return the number of updates that a party releases if it takes part in every round."""
    return scenario.stop.rounds * clustering.works_of(scenario.clustering)


def rounding_of(scenario: Scenario, length: int, scale_bits: int | None = None) -> BoundedRounding | None:
    """Return the bound on the contribution of one unit; None if such vectors are longer than 2^30 steps.

    The scenario has a unit and a numeric delta; ``length`` is d. ``scale_bits`` defaults to the scenario's.
    """
    bits = scenario.encoding.scale_bits if scale_bits is None else scale_bits
    beta = DEFAULT_BETA
    if scenario.privacy.unit == "record":
        beta = _lost_share(scenario) / (2 * _differences(scenario))
    norm = _norm(scenario, length, beta) * 2.0**bits
    if norm + math.sqrt(length) > MAX_LENGTH:
        return None
    return BoundedRounding(norm, length, beta)


def lost_in_rounding(scenario: Scenario) -> float:
    """Return P(rounding or a batch exceeds its bound) per release; it is subtracted from delta."""
    dp = scenario.training.dp_sgd
    overfull = OVERFULL if dp is not None and dp.sampler == "poisson" else 0.0
    lost = _lost_share(scenario)
    return lost and lost + overfull


def _lost_share(scenario: Scenario) -> float:
    """Return the share of delta in each release that rounding and large batches may take, or 0."""
    delta = scenario.privacy.delta
    if scenario.privacy.unit != "record" or delta == "auto":
        return 0.0
    return LOST_SHARE * delta / planned_releases(scenario)


def _differences(scenario: Scenario) -> int:
    """Return the distance of neighbouring batches in records' lengths; beta counts for each."""
    dp = scenario.training.dp_sgd
    displaces = dp is not None and dp.sampler == "fixed-size"
    return 2 if displaces else SENSITIVITY[scenario.privacy.relation]


def signal_of(scenario: Scenario, rounding: BoundedRounding) -> float:
    """Return a bound on the L2 norm of one honest party's upload before the noise, steps.

    At record level, of its largest batch: exceeded with probability at most 2e-9 each time.
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
    """Return a size that Poisson batches of mean ``batch`` exceed with probability at most ``beta``.

    Chernoff's bound for a Poisson variable, P(at least k) <= exp(-(k ln(k / b) - k + b)), also holds for
    every binomial variable of this mean.
    """
    most = batch
    while (most + 1) * math.log((most + 1) / batch) - (most + 1) + batch < -math.log(beta):
        most += 1
    return most


def batch_capacity(sampler: Literal["poisson", "fixed-size"], batch: int) -> int:
    """Return the number of slots of a batch of expected size ``batch``, among which examples draw their rows.

    In a larger batch (probability at most :data:`OVERFULL`) the law of the rows would depend on one record.
    """
    return batch if sampler == "fixed-size" else _most_drawn(batch, OVERFULL)


def sum_error(records: int, length: int, *, carried: bool) -> float:
    """Return the excess of the change of the computed sum by one record over C / b, relative to C / b.

    With u = 2^-53 and k = ``records`` >= 1, the sum has k terms, none longer than (1 + 6 u) C / b. Each
    number of a term takes part in at most 2 k additions, its carry's included, and 6 other operations. So a
    computed sum is off by (2 k + 6) u times the lengths of all terms (Higham 2002, sections 3.1 and 4.2; up
    to higher orders). Two sums are off by twice that.

    Without a carry, the lengths of the terms are at most k C / b together. With a carry (``carried``), the
    parts of a term may nearly cancel. The length that divides both is at least sqrt((d + 4) 2^-52) times
    theirs, d = ``length`` (:class:`securefl.training.dpsgd.bounded.BoundedSums`). So they are no longer than
    2^26 / sqrt(d + 4) times C / b.

    A clip of the update divides by a computed length, off by at most d u / 2, and scales both sums, of length
    k C / b.
    """
    longest = max(1.0, 2.0**26 / math.sqrt(length + 4)) if carried else 1.0
    return 2.0**-52 * records * ((2 * records + 10) * longest + length)


def _norm(scenario: Scenario, length: int, beta: float) -> float:
    """Return the bound before rounding, in the parameters' unit.

    Record level exceeds it with probability ``beta``.
    """
    dp, clip = scenario.training.dp_sgd, scenario.encoding.clip
    if scenario.privacy.unit == "record" and dp is not None:
        batch = scenario.training.batch_size
        most = batch if dp.sampler == "fixed-size" else _most_drawn(batch, beta)
        carried = bool(dp.momentum) and dp.carry != "off"
        return dp.norm / batch * (1 + sum_error(most, length, carried=carried))
    if scenario.privacy.unit == "party" and clip != "none":
        return clip
    raise UsageError(
        'cannot bound what one unit adds: set encoding.clip (unit "party") or training.dp_sgd (unit "record")'
    )
