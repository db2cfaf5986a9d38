"""Spoiled clusters, and probability of more colluders than f."""

import functools
import math
from bisect import bisect_left

from securefl import scenario
from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.design import Shape
from securefl.methods.clustering import Game, cluster_sizes, odds, p_withstands

_NEGLIGIBLE = 1e-12


def p_clean(demand: PlanRequest, shape: Shape, withstood: int) -> float:
    """Return P(no assignment of a round has more than ``withstood`` spoiled clusters).

    The worst case is 0 or 1: Byzantine parties are in separate clusters.
    """
    if demand.case == "worst" or not demand.liars:
        return float(demand.liars <= withstood)
    if shape.atoms > 1:
        return _withstands_in_atoms(
            shape.atoms,
            shape.units(demand.parties),
            demand.liars,
            shape.units_per_cluster,
            withstood,
            shape.reclusterings,
        )
    return _withstands(demand.parties, demand.liars, shape.size, withstood, shape.reclusterings)


def spoiled_clusters(demand: PlanRequest, shape: Shape) -> int:
    """Return the fewest spoiled clusters that a rule must withstand for the demanded :func:`p_clean`.

    In the worst case it is the number of Byzantine parties. Otherwise it is the number of all clusters if
    no smaller one suffices.
    """
    if demand.case == "worst":
        return demand.liars
    clusters = len(shape.sizes(demand.parties))
    return bisect_left(range(clusters), x=True, key=lambda k: p_clean(demand, shape, k) >= demand.clean)


@functools.lru_cache(maxsize=4096)
def _withstands(parties: int, byzantine: int, size: int, withstood: int, reclusterings: int) -> float:
    return p_withstands(parties, byzantine, size, withstood, reclusterings)


@functools.lru_cache(maxsize=4096)
def _withstands_in_atoms(
    atoms: int, units: int, byzantine: int, per_cluster: int, withstood: int, reclusterings: int
) -> float:
    clusters = cluster_sizes(units, per_cluster)
    return math.fsum(
        chance * odds.touched_at_most(clusters, spoiled, withstood) ** reclusterings
        for spoiled, chance in enumerate(_spoiled_atoms(atoms, units, byzantine))
        if chance > _NEGLIGIBLE
    )


@functools.lru_cache(maxsize=256)
def _spoiled_atoms(atoms: int, units: int, byzantine: int) -> tuple[float, ...]:
    """Return the exact probability of each number of atoms with Byzantine members.

    Parties take seats in turn; the next is in a spoiled atom with the share of free seats there.
    """
    law = [1.0]
    for seated in range(byzantine):
        left = atoms * units - seated
        inside = [chance * (atoms * count - seated) / left for count, chance in enumerate(law)]
        beyond = [chance * atoms * (units - count) / left for count, chance in enumerate(law)]
        law = [a + b for a, b in zip([*inside, 0.0], [0.0, *beyond], strict=True)][: units + 1]
    return tuple(law)


def p_exceeded(demand: PlanRequest, shape: Shape, f: int, *, shared: bool = False) -> float:
    """Return P(more than ``f`` mates of a given party collude in an opening of the run).

    An active server chooses the best presence in each draw
    (:mod:`securefl.methods.clustering.adaptive_server`). A curious one has random clusters: of all parties
    or, if noise is ``shared``, of the fewest parties of a round.
    Common atoms of all openings would lower the probability.
    """
    active, largest = demand.server == "active", max(shape.sizes(demand.parties))
    game = Game(
        parties=demand.parties,
        participants=demand.parties,
        colluders=demand.colluders,
        size=shape.size,
        # Against an active server: the size up to which two groups of the threshold share more than f
        # members.
        largest=2 * scenario.majority_of(largest, f) - f - 1 if active else largest,
        server=demand.server,
        openings=demand.rounds * shape.reclusterings,
    )
    return game.exceeds(f, None if active or shared else demand.parties).in_run


def colluders_together(demand: PlanRequest, shape: Shape, f: int) -> int:
    """Return the assumed colluders in a combination of sums.

    See :func:`securefl.methods.clustering.leakage_colluders`.
    """
    return demand.colluders if shape.openings > 1 and shape.atoms == 1 else f


def colluders_per_cluster(demand: PlanRequest, shape: Shape, *, shared: bool = False) -> int:
    """Return f: the fewest colluders per cluster for which :func:`p_exceeded` meets the demand."""
    return bisect_left(
        range(demand.colluders),
        x=True,
        key=lambda f: p_exceeded(demand, shape, f, shared=shared) <= demand.risk,
    )
