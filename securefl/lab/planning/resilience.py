"""Resilience of clusters: how many Byzantine parties spoil, and odds of more colluders than reckoned."""

import functools
import math
from bisect import bisect_left

from securefl import scenario
from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.design import Shape
from securefl.methods.clustering import Game, cluster_sizes, odds, p_withstands

_NEGLIGIBLE = 1e-12


def p_clean(demand: PlanRequest, shape: Shape, withstood: int) -> float:
    """P(a rule that withstands so many spoiled clusters gets by in all assignments of a round).

    In the worst case the Byzantine parties are all apart, and it is 0 or 1.
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
    """The fewest spoiled clusters that a rule must withstand for :func:`p_clean` to be what is demanded.

    All of them, where nothing less is enough.
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
    """As above, where the R assignments have the atoms in common: by the number of atoms with liars."""
    clusters = cluster_sizes(units, per_cluster)
    return math.fsum(
        chance * odds.touched_at_most(clusters, spoiled, withstood) ** reclusterings
        for spoiled, chance in enumerate(_spoiled_atoms(atoms, units, byzantine))
        if chance > _NEGLIGIBLE
    )


@functools.lru_cache(maxsize=256)
def _spoiled_atoms(atoms: int, units: int, byzantine: int) -> tuple[float, ...]:
    """P(so many atoms have any of the Byzantine parties), by number: exact, as all atoms are alike.

    Parties take seats one after the other; the next one finds itself in a spoiled atom with the probability
    of the seats that are left in those.
    """
    law = [1.0]
    for seated in range(byzantine):
        left = atoms * units - seated
        inside = [chance * (atoms * count - seated) / left for count, chance in enumerate(law)]
        beyond = [chance * atoms * (units - count) / left for count, chance in enumerate(law)]
        law = [a + b for a, b in zip([*inside, 0.0], [0.0, *beyond], strict=True)][: units + 1]
    return tuple(law)


def p_exceeded(demand: PlanRequest, shape: Shape, f: int, *, shared: bool = False) -> float:
    """P(more than ``f`` of a given party's cluster mates collude in at least one opening of the run).

    By the game that the header is reckoned with (:mod:`securefl.methods.clustering.game`): against an active
    server at the presence that suits it best, in all draws that it can have. A curious one has what chance
    gives: among everybody, or where noise is ``shared`` among however few parties a round goes on with. With
    atoms, which are the same in all openings, it is less.
    """
    active, largest = demand.server == "active", max(shape.sizes(demand.parties))
    game = Game(
        parties=demand.parties,
        participants=demand.parties,
        colluders=demand.colluders,
        size=shape.size,
        # Against an active server as many as two groups of the threshold still share more than f of.
        largest=2 * scenario.majority_of(largest, f) - f - 1 if active else largest,
        server=demand.server,
        openings=demand.rounds * shape.reclusterings,
    )
    return game.exceeds(f, None if active or shared else demand.parties).in_run


def colluders_together(demand: PlanRequest, shape: Shape, f: int) -> int:
    """Colluders in a combination of sums by the planned scenario.

    As :func:`securefl.methods.clustering.leakage_colluders` counts them.
    """
    return demand.colluders if shape.openings > 1 and shape.atoms == 1 else f


def colluders_per_cluster(demand: PlanRequest, shape: Shape, *, shared: bool = False) -> int:
    """f: the fewest colluders to reckon with, so that :func:`p_exceeded` is what is demanded at most."""
    return bisect_left(
        range(demand.colluders),
        x=True,
        key=lambda f: p_exceeded(demand, shape, f, shared=shared) <= demand.risk,
    )
