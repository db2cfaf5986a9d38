"""What reclusterings of one update determine: formulas, the ledger, and the leverage of single parties."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.lab.planning.design import Shape
from securefl.lab.planning.freezing import dimensions_left, mean_leverage, simulate_disclosure
from securefl.methods.attacks.assignment import party_names
from securefl.methods.clustering.assignment import draw_assignment
from securefl.methods.clustering.reclustering import r_star
from securefl.methods.leakage.ledger import plan_ledgers
from securefl.methods.leakage.modular import prime_from
from securefl.methods.privacy.exposure import leverage


@pytest.mark.parametrize(("parties", "size", "enough"), [(100, 5, 6), (100, 10, 11), (60, 3, 4), (40, 5, 6)])
def test_r_star_is_that_of_the_measurements(parties: int, size: int, enough: int) -> None:
    assert r_star(parties, parties // size) == enough
    left = [
        dimensions_left(parties, Shape(size=size, reclusterings=again), parties // size)
        for again in (enough - 1, enough)
    ]
    assert left[0] > left[1] == 0


def test_one_cluster_exposes_nobody() -> None:
    assert r_star(12, 1) is None
    shape = Shape(size=12, reclusterings=50)
    assert dimensions_left(12, shape, 1) == 11
    assert mean_leverage(12, shape, 1) == pytest.approx(1 / 12)


@pytest.mark.parametrize("openings", [1, 2, 3, 4])
def test_formulas_agree_with_the_ledger(openings: int) -> None:
    """(24, 4): nobody is exposed before R* = 5, and the mean leverage is the formula's whatever is drawn."""
    shape = Shape(size=4, reclusterings=openings)
    found = simulate_disclosure(24, 0, shape, 0, 2, 2)
    assert found.exposed == 0
    assert found.leverage == pytest.approx(mean_leverage(24, shape, 6))
    assert found.leverage <= found.highest < 1


def test_from_r_star_on_everybody_is_exposed_and_parties_open_fewer_sums() -> None:
    found = simulate_disclosure(24, 0, Shape(size=4, reclusterings=6), 0, 2, 2)
    assert found.exposed == 24
    assert found.leverage == found.highest == 1.0
    assert 1 <= found.admitted < 6


def test_colluders_end_it_sooner() -> None:
    """(60, 3) at R = 3: none without colluders, 54.5 of 58 with two on average (docs/leakage.md)."""
    shape = Shape(size=3, reclusterings=3)
    assert simulate_disclosure(60, 0, shape, 0, 2, 1).exposed == 0
    assert simulate_disclosure(60, 2, shape, 0, 2, 2).exposed > 40


@pytest.mark.parametrize("openings", [1, 3, 9])
def test_atoms_hide_however_often_clusters_are_drawn(openings: int) -> None:
    shape = Shape(size=6, atoms=3, reclusterings=openings)
    found = simulate_disclosure(24, 1, shape, 1, 2, 2)
    assert found.exposed == 0
    assert found.admitted == openings
    assert found.highest <= 1 / 2 + 1e-9, "of three atom mates one colludes"
    alone = simulate_disclosure(24, 0, shape, 0, 2, 2)
    assert alone.leverage == pytest.approx(mean_leverage(24, shape, 4))
    assert alone.leverage <= 1 / 3 + 1e-9


def test_leverage_is_that_of_the_general_formula() -> None:
    names, seed = party_names(12), bytes(32)
    (ledger,) = plan_ledgers(
        draw_assignment(seed, names, 12, 3, 2), names, 0, prime_from(seed), new_work=False
    )
    own = [leverage(ledger.matrix, np.ones(12), party) for party in range(12)]
    assert np.mean(own) == pytest.approx(mean_leverage(12, Shape(size=3, reclusterings=2), 4))
