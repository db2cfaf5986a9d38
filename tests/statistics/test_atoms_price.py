"""The price of atoms, drawn, against closed forms. Seeds are fixed: another draw may move a number."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from securefl.methods.clustering import odds
from tests.statistics.atoms_price import Setting, counted, never_clean

SMALL = Setting(parties=24, byzantine=3, size=6, reclusterings=2, rounds=8)
RUNS = 40


@pytest.mark.parametrize("atoms", [2, 3])
def test_a_byzantine_atom_mate_is_for_life(atoms: int) -> None:
    """Who has one is never in a clean cluster; of the others nearly everybody is, once in 16 openings."""
    _, in_run = never_clean(replace(SMALL, atoms=atoms), RUNS)
    mate = odds.tail(23, 3, atoms - 1, 1)
    unlucky = odds.tail(24 - atoms, 3, 6 - atoms, 1) ** 16
    expected = mate + (1 - mate) * unlucky
    # At most 3 (a - 1) parties of 21 have such a mate in a run: deviation of the mean of 40 runs below 0.02.
    assert in_run == pytest.approx(expected, abs=0.06)
    assert never_clean(SMALL, RUNS)[1] < 0.01


@pytest.mark.parametrize("atoms", [2, 3])
def test_where_one_atom_may_be_opened_a_dropout_costs_its_atom_only(atoms: int) -> None:
    share = counted(replace(SMALL, atoms=atoms), 0.1, atoms, RUNS)
    whole = 0.9**atoms
    deviation = math.sqrt(whole * (1 - whole) * atoms / (24 * SMALL.rounds * RUNS))
    # Three chances in a million, two-sided.
    assert abs(share - whole) < 4.7 * deviation


def test_where_clusters_need_more_than_an_atom_dropouts_cascade() -> None:
    setting = replace(SMALL, atoms=3, reclusterings=5)
    assert counted(setting, 0.1, 4, 20) < 0.75 * counted(setting, 0.1, 3, 20)
