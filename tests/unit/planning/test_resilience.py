"""Byzantine clusters and colluding mates: predictions against drawn assignments."""

from __future__ import annotations

import pytest

from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.design import Shape
from securefl.lab.planning.resilience import colluders_per_cluster, p_clean, p_exceeded, spoiled_clusters
from securefl.methods.clustering import odds
from tests.unit.planning.rounds import agrees, rounds

GRID = [
    # parties, shape, Byzantine, withstood, colluders, f
    (12, Shape(size=3), 2, 1, 3, 1),
    (20, Shape(size=4, reclusterings=2), 3, 2, 5, 1),
    (30, Shape(size=3, reclusterings=3), 4, 3, 6, 0),
    (31, Shape(size=5, reclusterings=2), 3, 2, 8, 2),
    (24, Shape(size=6, atoms=2, reclusterings=2), 3, 2, 9, 2),
]


@pytest.mark.parametrize(("parties", "shape", "liars", "withstood", "colluders", "f"), GRID)
def test_predictions_agree_with_drawn_rounds(
    parties: int, shape: Shape, liars: int, withstood: int, colluders: int, f: int
) -> None:
    """Each within an error of probability 1e-5. A run is one round here; a longer one has more openings."""
    demand = PlanRequest(parties=parties, colluders=colluders, byzantine=liars / parties, rounds=1)
    assert demand.liars == liars
    smallest = min(shape.sizes(parties))
    clean = alone = exceeded = trials = 0
    for one in rounds(parties, shape, 0.0, 500):
        everybody = sorted({member for members in one.clusters.values() for member in members})
        byzantine, curious, victim = set(everybody[:liars]), set(everybody[:colluders]), everybody[-1]
        spoiled = [0] * shape.reclusterings
        for (r, _), members in one.clusters.items():
            spoiled[r] += bool(byzantine.intersection(members))
        clean += max(spoiled) <= withstood
        own = [set(members) - {victim} for members in one.clusters.values() if victim in members]
        near = [set(members) - {victim} for members in one.atoms if victim in members] or own
        # Clusters of one more member make it a little rarer: predictions take the worse size.
        if all(len(mates) == smallest - 1 for mates in own):
            trials += 1
            alone += any(mates <= curious for mates in near)
            exceeded += any(len(mates & curious) > f for mates in own)
    assert agrees(clean, 500, p_clean(demand, shape, withstood))
    assert trials > 250
    # What the header says of it for a curious server (securefl.methods.feasibility.derived).
    expected = odds.alone_among(parties, colluders, shape.atoms if shape.atoms > 1 else smallest)
    openings = 1 if shape.atoms > 1 else shape.reclusterings
    assert agrees(alone, trials, odds.once_in(expected, openings))
    if shape.atoms > 1:
        # Openings have atoms in common, so that the formula is a bound.
        assert exceeded / trials <= p_exceeded(demand, shape, f)
    elif parties % shape.size == 0:
        assert agrees(exceeded, trials, p_exceeded(demand, shape, f))


def test_the_worst_case_is_certain() -> None:
    demand = PlanRequest(parties=20, byzantine=0.15, case="worst")
    shape = Shape(size=2, reclusterings=3)
    assert (p_clean(demand, shape, 3), p_clean(demand, shape, 2)) == (1.0, 0.0)
    assert spoiled_clusters(demand, shape) == 3


def test_numbers_are_the_fewest_that_do() -> None:
    demand = PlanRequest(parties=60, colluders=6, byzantine=0.1, rounds=20, clean=0.9, risk=0.02)
    for shape in (Shape(size=4), Shape(size=3, reclusterings=2), Shape(size=6, reclusterings=3)):
        spoiled, f = spoiled_clusters(demand, shape), colluders_per_cluster(demand, shape)
        assert p_clean(demand, shape, spoiled) >= demand.clean > p_clean(demand, shape, spoiled - 1)
        assert p_exceeded(demand, shape, f) <= demand.risk < p_exceeded(demand, shape, f - 1)


def test_an_active_server_chooses_among_whom_a_party_is_drawn() -> None:
    shape = Shape(size=5)
    curious, active = (
        PlanRequest(parties=60, colluders=6, server=server, rounds=5) for server in ("curious", "active")
    )
    assert p_exceeded(active, shape, 1) > p_exceeded(curious, shape, 1)
    assert p_exceeded(PlanRequest(parties=60), shape, 0) == 0.0
