"""Losses by dropouts: atoms are the units that are lost (a party is a unit where there are none)."""

from __future__ import annotations

from securefl.lab.planning import freezing
from securefl.lab.planning.demand import Demand
from securefl.lab.planning.design import Shape
from securefl.methods import clustering


def p_cluster_lost(demand: Demand, shape: Shape, min_survivors: int) -> float:
    """P(a given cluster, one of the smallest, is lost to its own dropouts)."""
    smallest = min(clustering.cluster_sizes(shape.units(demand.parties), shape.units_per_cluster))
    return freezing.p_aborted(smallest, _units(shape, min_survivors), p_unit_lost(demand, shape))


def p_round_loses(demand: Demand, shape: Shape, min_survivors: int) -> float:
    """P(a round loses any cluster of its R assignments to dropouts)."""
    return freezing.p_any_lost(
        shape.units(demand.parties),
        shape.units_per_cluster,
        _units(shape, min_survivors),
        p_unit_lost(demand, shape),
        shape.reclusterings,
    )


def freezes(demand: Demand, shape: Shape, min_survivors: int, trials: int) -> freezing.Freezes:
    """So many simulated freezes; its ``taken`` is of units."""
    return freezing.sample_freezes(
        shape.units(demand.parties),
        shape.units_per_cluster,
        _units(shape, min_survivors),
        p_unit_lost(demand, shape),
        shape.reclusterings,
        trials,
    )


def p_unit_lost(demand: Demand, shape: Shape) -> float:
    """P(any member of an atom drops out), which takes the atom along."""
    return 1 - (1 - demand.dropout) ** shape.atoms


def _units(shape: Shape, min_survivors: int) -> int:
    return -(-min_survivors // shape.atoms)
