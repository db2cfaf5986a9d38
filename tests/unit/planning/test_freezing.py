"""Dropouts at the freeze: closed forms against enumeration, and all of it against real freezes."""

from __future__ import annotations

import math
from itertools import product

import pytest

from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.design import Shape
from securefl.lab.planning.freezing import p_aborted, p_any_lost, sample_freezes
from securefl.lab.planning.noise import freezes, p_cluster_lost, p_round_loses
from securefl.methods.clustering.sizes import cluster_sizes
from tests.unit.planning.rounds import agrees, alike, rounds


@pytest.mark.parametrize(("parties", "size", "least"), [(6, 3, 2), (7, 3, 3), (8, 2, 1)])
def test_a_single_assignment_by_enumeration(parties: int, size: int, least: int) -> None:
    sizes = cluster_sizes(parties, size)
    home = [cluster for cluster, members in enumerate(sizes) for _ in range(members)]
    dropout, kept = 0.2, 0.0
    for out in product((False, True), repeat=parties):
        chance = math.prod(dropout if gone else 1 - dropout for gone in out)
        alive = [
            sum(not gone for gone, at in zip(out, home, strict=True) if at == j) for j in range(len(sizes))
        ]
        kept += chance * (min(alive) >= least)
    assert p_any_lost(parties, size, least, dropout, 1) == pytest.approx(1 - kept)
    assert 1 - math.prod(1 - p_aborted(members, least, dropout) for members in sizes) == pytest.approx(
        1 - kept
    )


def test_the_ends_of_the_scale() -> None:
    assert p_any_lost(12, 3, 3, 0.0, 2) == 0.0
    assert p_aborted(3, 2, 0.0) == 0.0
    assert p_aborted(3, 3, 0.5) == pytest.approx(1 - 0.5**3)
    assert p_any_lost(12, 12, 12, 0.3, 1) == pytest.approx(1 - 0.7**12)
    # More reclusterings only lose more.
    chances = [p_any_lost(30, 5, 4, 0.03, again) for again in range(1, 6)]
    assert chances == sorted(chances)
    assert 0 < p_any_lost(2_000, 10, 5, 0.1, 3) < 1


GRID = [
    (12, Shape(size=3), 2, 0.05),
    (12, Shape(size=4, reclusterings=2), 3, 0.1),
    (20, Shape(size=5, reclusterings=3), 3, 0.1),
    (20, Shape(size=4, reclusterings=2), 3, 0.15),
    (30, Shape(size=6, reclusterings=2), 5, 0.04),
    (31, Shape(size=10, reclusterings=3), 8, 0.1),
    (24, Shape(size=6, atoms=2), 4, 0.1),
    (24, Shape(size=9, atoms=3, reclusterings=2), 5, 0.05),
]
"""Parties, shape, fewest survivors, dropout."""


@pytest.mark.parametrize(("parties", "shape", "least", "dropout"), GRID)
def test_predictions_agree_with_drawn_rounds(parties: int, shape: Shape, least: int, dropout: float) -> None:
    """Lost clusters, a given cluster and cascades, each within an error of probability 1e-5."""
    trials = 400
    lost = given = cascaded = 0
    demand = PlanRequest(parties=parties, dropout=dropout)
    for one in rounds(parties, shape, dropout, trials):
        early = one.lost(least)
        lost += bool(early)
        given += min(early, default=(1, 0)) == (0, 0) if parties % shape.size == 0 else 0
        cascaded += bool(one.closed(least) - early)
    predicted = p_round_loses(demand, shape, least)
    assert agrees(lost, trials, predicted)
    if parties % shape.size == 0:
        assert agrees(given, trials, p_cluster_lost(demand, shape, least))
    found = freezes(demand, shape, least, 3_000)
    assert alike(cascaded, trials, found.cascaded, found.trials)
    assert agrees(found.lost, found.trials, predicted)
    assert found.cascaded <= found.lost
    assert (found.cascaded == 0) == (shape.reclusterings == 1)


def test_a_simulation_gives_the_same_answer_again() -> None:
    assert sample_freezes(20, 5, 4, 0.1, 2, 500) == sample_freezes(20, 5, 4, 0.1, 2, 500)
    assert sample_freezes(20, 5, 4, 0.1, 2, 500, seed=1) != sample_freezes(20, 5, 4, 0.1, 2, 500)
