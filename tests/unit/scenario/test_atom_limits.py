"""Atoms in a scenario: what they are refused with, the clusters that they make, and their odds."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.methods.clustering import odds
from securefl.methods.clustering.sizes import cluster_sizes, dealt, planned_atoms, planned_sizes
from tests.tiers import examples
from tests.unit.scenario.samples import checked, headed, refusal, small

ATOMS = ("parties=20", "clustering.size=8", "clustering.atoms=4")
SUMS = "secure_sum={threshold=4, min_survivors=4, colluders=3, colluders_per_cluster=2}"


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        (
            ("clustering.size=4",),
            "clustering.size",
            "not consist of two or more whole atoms of 4 (set it to 8, or",
        ),
        (
            ("clustering.size=10",),
            "clustering.size",
            "clusters of 10 do not consist of two or more whole atoms of 4",
        ),
        (("secure_sum.k_anonymity=5",), "clustering.atoms", "it needs k = 5 honest members (set it to at le"),
        (
            ("secure_sum.colluders=3", "secure_sum.colluders_per_cluster=3", "secure_sum.threshold=4"),
            "clustering.atoms",
            "besides f = 3 colluders it needs k = 2",
        ),
        (
            ("clustering.fixed=true", "leakage.mode=report"),
            "clustering.atoms",
            "cannot be combined with clustering.fixed",
        ),
        (("participation.count=10",), "participation.count", "10 of 20 parties would be drawn, in whole"),
        (("parties=21", "participation.count=8"), "participation.count", "must be multiples of it"),
        (("participation.fraction=0.5",), "participation.fraction", "whole atoms of 4"),
        (
            (
                SUMS,
                "privacy.unit=party",
                "privacy.multiplier=1",
                "encoding.clip=1",
                "privacy.placement=threshold",
            ),
            "clustering.atoms",
            "can choose which of them are present",
        ),
        (("clustering.atoms=0",), "clustering.atoms", "expected int >= 1"),
    ],
)
def test_atoms_are_refused_with(changes: tuple[str, ...], path: str, says: str) -> None:
    error = refusal(*ATOMS, *changes)
    assert error.path == path
    assert says in str(error)


@pytest.mark.parametrize(
    "changes", [("clustering.new_work=true",), ("clustering.reclusterings=4",), ("participation.count=12",)]
)
def test_atoms_go_with(changes: tuple[str, ...]) -> None:
    assert min(checked(*ATOMS, *changes).cluster_sizes) >= 8


@given(atoms=st.lists(st.integers(1, 5), min_size=1, max_size=20), per_cluster=st.integers(1, 6))
def test_atoms_are_dealt_evenly(atoms: list[int], per_cluster: int) -> None:
    per_cluster = min(per_cluster, len(atoms))
    clusters = dealt(atoms, per_cluster)
    assert sorted(itertools.chain(*clusters)) == list(range(len(atoms)))
    assert sorted(map(len, clusters), reverse=True) == list(cluster_sizes(len(atoms), per_cluster))
    for size in set(atoms):
        shares = [sum(atoms[place] >= size for place in cluster) for cluster in clusters]
        assert max(shares) - min(shares) <= 1


@given(parties=st.integers(2, 60), size=st.integers(1, 9))
def test_without_atoms_clusters_are_as_ever(parties: int, size: int) -> None:
    size = min(size, parties)
    scenario = small(f"parties={parties}", f"clustering.size={size}")
    assert planned_sizes(scenario) == cluster_sizes(parties, size)


@given(parties=st.integers(12, 60), atoms=st.integers(2, 5), per_cluster=st.integers(2, 3))
@settings(deadline=None, max_examples=examples(40))
def test_planned_clusters(parties: int, atoms: int, per_cluster: int) -> None:
    size = atoms * per_cluster
    if size > parties:
        return
    given_ = (f"parties={parties}", f"clustering.size={size}", f"clustering.atoms={atoms}")
    limits, planned = checked(*given_), planned_atoms(small(*given_))
    assert sum(limits.cluster_sizes) == parties
    assert min(limits.cluster_sizes) >= size
    assert max(limits.cluster_sizes) <= limits.max_cluster_size
    for members, tolerated, inside in zip(
        limits.cluster_sizes, limits.tolerated_dropouts, planned, strict=True
    ):
        worst = sorted(inside, reverse=True)
        assert members == sum(inside)
        assert members - sum(worst[:tolerated]) >= 2
        assert tolerated == len(inside) or members - sum(worst[: tolerated + 1]) < 2


def by_trying_all(clusters: list[list[int]], dropouts: int, least: int, resting: int) -> float:
    places = [(j, a) for j, atoms in enumerate(clusters) for a, size in enumerate(atoms) for _ in range(size)]
    places += [(-1, n) for n in range(resting)]
    kept = total = 0
    for gone in itertools.combinations(range(len(places)), dropouts):
        lost = {places[member] for member in gone}
        left = [sum(s for a, s in enumerate(atoms) if (j, a) not in lost) for j, atoms in enumerate(clusters)]
        kept += min(left) >= least
        total += 1
    return kept / total


@pytest.mark.parametrize("clusters", [[[2, 2], [3, 2]], [[1, 1, 1], [2, 1]], [[3, 3]]])
@pytest.mark.parametrize(("dropouts", "least", "resting"), [(0, 1, 0), (1, 2, 0), (2, 2, 1), (3, 1, 2)])
def test_odds_that_dropouts_leave_every_cluster(
    clusters: list[list[int]], dropouts: int, least: int, resting: int
) -> None:
    parties = sum(map(sum, clusters)) + resting
    expected = by_trying_all(clusters, dropouts, least, resting)
    assert odds.clusters_kept(clusters, dropouts, least, parties) == pytest.approx(expected)
    rate = 0.2
    for atoms in clusters:
        size = sum(atoms)
        binomial = sum(
            math.comb(size, gone)
            * rate**gone
            * (1 - rate) ** (size - gone)
            * by_trying_all([atoms], gone, least, 0)
            for gone in range(size + 1)
        )
        assert odds.cluster_kept_at(atoms, rate, least) == pytest.approx(binomial)


def test_headers_say_what_atoms_promise_and_cost() -> None:
    limits = checked(*ATOMS, SUMS, "aggregation.byzantine=2", "clustering.reclusterings=5")
    text = " | ".join(headed(*ATOMS, SUMS, "aggregation.byzantine=2", "clustering.reclusterings=5"))
    assert "each sum has at least 4 parties (atoms): 5 of 4 for the whole run, 2 honest beside f = 2" in text
    # P(some atom of 5 holds all 3 colluders) = 5 C(4, 3) / C(20, 3) = 20 / 1140.
    assert "no atom has more than f = 2 colluders with probability 98.2 %" in text
    # All 3 mates among 19 collude: 1 / C(19, 3) = 1 / 969.
    assert limits.p_alone_in_run == pytest.approx(1 / 969)
    # P(none of 3 mates among 19 is one of 2) = 16 x 15 / (19 x 18).
    assert f"a Byzantine atom mate in the run with probability {100 * (1 - 240 / 342):.3g} %" in text
    assert "a dropout loses its atom" in text
    assert "4 random reclusterings as a rule determine the sum of each atom" in text
    assert "SUMS EXPOSE" not in text
    assert "atoms" not in " | ".join(headed("clustering.reclusterings=3"))


def test_an_active_server_has_more_than_one_atom_draw_to_void() -> None:
    active = (
        "secure_sum={server='active', threshold=8, min_survivors=8, colluders=3, colluders_per_cluster=2}"
    )
    limits = checked(*ATOMS, active, "stop.rounds=3")
    assert limits.p_alone_in_run == pytest.approx(odds.once_in(1 / 969, 9))
    assert limits.quorum == 12
    assert "(2 in total): 1 random dropout" in " | ".join(headed(*ATOMS, active, "stop.rounds=3"))
