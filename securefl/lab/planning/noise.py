"""Noise for an epsilon, as a fast upper bound, and dropouts of whole atoms (units)."""

import functools
import math
from dataclasses import replace

from securefl.base.errors import ConfigError
from securefl.lab.planning import freezing
from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.design import Shape
from securefl.lab.planning.drafting import delta_of
from securefl.methods import clustering, privacy

_TOLERANCE = 1e-2


def multiplier_of(demand: PlanRequest, works: int) -> float:
    """Return the noise multiplier that keeps ``demand.epsilon`` over T x ``works`` releases.

    For parties it uses privacy loss distributions, as runs do. For sampled records it uses integer Renyi
    orders, which is much faster and 5 to 20 % above a run's multiplier.

    Raises:
        ConfigError: no such multiplier, or dp_accounting is missing.
    """
    if demand.epsilon is None:
        return 0.0
    return _multiplier(release_of(demand).times(demand.rounds * works), demand.epsilon, delta_of(demand))


def release_of(demand: PlanRequest) -> privacy.ReleaseEvent:
    """Return one release with noise of one sensitivity."""
    one = privacy.ReleaseEvent(noise_multiplier=1.0, steps=1, mechanism="skellam", unit=demand.unit)
    if demand.unit == "party":
        return one
    return replace(
        one, sampler="poisson", records=demand.records, batch=demand.batch, denominator=demand.batch
    )


@functools.lru_cache(maxsize=64)
def _multiplier(event: privacy.ReleaseEvent, epsilon: float, delta: float) -> float:
    if event.unit == "party":
        return privacy.calibrate(event, epsilon, delta, tolerance=_TOLERANCE).sigma

    def over(sigma: float) -> float:
        spent = privacy.quick_epsilon((replace(event, noise_multiplier=sigma),), delta)
        return math.log(spent / epsilon) if spent > 0 else -math.inf

    found = privacy.falling_root(over, 1.0, 2.0, _TOLERANCE, (privacy.MIN_SIGMA, privacy.MAX_SIGMA))
    if found is None:
        raise ConfigError(
            "--epsilon",
            f"epsilon = {epsilon:g} over {event.steps} releases needs a noise multiplier outside"
            f" {privacy.MIN_SIGMA:g} to {privacy.MAX_SIGMA:g}",
            "give a larger epsilon, or fewer rounds"
            if over(privacy.MAX_SIGMA) > 0
            else "give a smaller epsilon, or a smaller --delta",
        )
    return found


def p_cluster_lost(demand: PlanRequest, shape: Shape, min_survivors: int) -> float:
    """Return P(one of the smallest clusters is lost to its own dropouts)."""
    smallest = min(clustering.cluster_sizes(shape.units(demand.parties), shape.units_per_cluster))
    return freezing.p_aborted(smallest, _units(shape, min_survivors), p_unit_lost(demand, shape))


def p_round_loses(demand: PlanRequest, shape: Shape, min_survivors: int) -> float:
    """Return P(a round loses a cluster of its R assignments to dropouts)."""
    return freezing.p_any_lost(
        shape.units(demand.parties),
        shape.units_per_cluster,
        _units(shape, min_survivors),
        p_unit_lost(demand, shape),
        shape.reclusterings,
    )


def freezes(demand: PlanRequest, shape: Shape, min_survivors: int, trials: int) -> freezing.Freezes:
    """Simulate ``trials`` freezes; the result counts units."""
    return freezing.sample_freezes(
        shape.units(demand.parties),
        shape.units_per_cluster,
        _units(shape, min_survivors),
        p_unit_lost(demand, shape),
        shape.reclusterings,
        trials,
    )


def p_unit_lost(demand: PlanRequest, shape: Shape) -> float:
    """Return P(any member of an atom drops out), which loses the whole atom."""
    return 1 - (1 - demand.dropout) ** shape.atoms


def _units(shape: Shape, min_survivors: int) -> int:
    return -(-min_survivors // shape.atoms)
