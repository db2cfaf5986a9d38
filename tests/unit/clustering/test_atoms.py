"""Atoms: formed once, never split by clusters, draws of participants or dropouts."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import Assignment
from securefl.methods.clustering.atoms import draw_unions, form_atoms, splits, whole
from securefl.methods.clustering.kept_atoms import Atom
from securefl.methods.clustering.survivors import is_closed, survivor_set
from tests.tiers import examples

CHI_SQUARE_1E6_OF_14 = 53.7
"""A uniform draw exceeds it with probability 1e-6. Seeds are fixed, so the result is too."""

KNOWN = (("p000", "p004", "p005", "p006"), ("p001", "p002", "p003"))
KNOWN_DIGEST = "fd2c2cc74cc6ce5fefa134d88527ee0aa919475172f05981e57a79c0778d2d60"


def parties(count: int) -> list[PartyId]:
    return [PartyId(f"p{i:03}") for i in range(count)]


def seed(number: int) -> bytes:
    return number.to_bytes(32, "big")


def union(
    atoms: tuple[Atom, ...], number: int, per_cluster: int = 2, reclusterings: int = 1, **limits: int
) -> Assignment:
    bounds = {"fewest": 1, "wanted": 10_000, "largest": 10_000} | limits
    return draw_unions(seed(number), atoms, per_cluster, reclusterings, **bounds)


@given(count=st.integers(1, 60), size=st.integers(1, 9), number=st.integers(0, 2**64))
@settings(deadline=None)
def test_everybody_is_in_one_atom(count: int, size: int, number: int) -> None:
    size = min(size, count)
    atoms = form_atoms(seed(number), parties(count), size)
    assert sorted(itertools.chain(*atoms)) == parties(count)
    assert list(atoms) == sorted(atoms)
    assert all(list(atom) == sorted(atom) for atom in atoms)
    sizes = Counter(map(len, atoms))
    assert len(atoms) == count // size
    assert size <= min(sizes)
    assert max(sizes) - min(sizes) <= 1


def test_known_answer() -> None:
    """A change here makes old and new versions form different atoms from the same atom draw."""
    atoms = form_atoms(seed(1), parties(7), 3)
    assert atoms == KNOWN
    drawn = draw_unions(seed(2), atoms, 1, 1, fewest=1, wanted=7, largest=7)
    assert drawn.clusters == (KNOWN,)
    assert drawn.digest().hex() == KNOWN_DIGEST


def test_the_order_of_the_roster_does_not_matter_and_the_seed_does() -> None:
    everybody = parties(30)
    atoms = form_atoms(seed(1), everybody, 3)
    assert form_atoms(seed(1), reversed(everybody), 3) == atoms
    assert all(form_atoms(seed(1 << bit), everybody, 3) != atoms for bit in range(8, 256, 16))


def test_all_atoms_are_equally_likely() -> None:
    counts = Counter(
        next(atom for atom in form_atoms(seed(n), parties(6), 2) if "p000" in atom) for n in range(1_500)
    )
    pairs = Counter(atom for n in range(1_500) for atom in form_atoms(seed(n), parties(6), 2))
    assert len(counts) == 5
    assert len(pairs) == 15
    assert sum((seen - 300) ** 2 / 300 for seen in pairs.values()) < CHI_SQUARE_1E6_OF_14


def test_fewer_parties_than_one_atom_needs() -> None:
    with pytest.raises(UsageError):
        form_atoms(seed(1), parties(2), 3)


@st.composite
def atoms_with_absences(draw: st.DrawFn) -> tuple[tuple[Atom, ...], tuple[Atom, ...]]:
    """The atoms of a run, and those of which everybody is present."""
    size = draw(st.integers(1, 5))
    count = draw(st.integers(size, 40))
    atoms = form_atoms(seed(draw(st.integers(0, 999))), parties(count), size)
    absent = draw(st.sets(st.sampled_from(parties(count)), max_size=3))
    return atoms, whole(atoms, set(parties(count)) - absent)


@given(
    case=atoms_with_absences(),
    per_cluster=st.integers(1, 4),
    reclusterings=st.integers(1, 3),
    wanted=st.integers(1, 45),
    largest=st.integers(1, 25),
    fewest=st.integers(1, 20),
    number=st.integers(0, 999),
)
@settings(deadline=None, max_examples=examples(80))
def test_clusters_are_unions_of_whole_atoms(
    case: tuple[tuple[Atom, ...], tuple[Atom, ...]],
    per_cluster: int,
    reclusterings: int,
    wanted: int,
    largest: int,
    fewest: int,
    number: int,
) -> None:
    _, there = case
    drawn = union(there, number, per_cluster, reclusterings, wanted=wanted, largest=largest, fewest=fewest)
    assert set(drawn.atoms) <= set(there)
    assert sorted(itertools.chain(*drawn.atoms)) == list(drawn.participants)
    assert len(drawn.clusters) == reclusterings
    for row in drawn.clusters:
        assert sorted(itertools.chain(*row)) == list(drawn.participants)
        within = [[atom for atom in drawn.atoms if set(atom) <= set(members)] for members in row]
        assert all(
            sorted(itertools.chain(*inside)) == list(members)
            for inside, members in zip(within, row, strict=True)
        )
        assert all(len(inside) >= per_cluster for inside in within)
        assert len({len(inside) for inside in within}) <= 2
        assert all(len(members) <= largest for members in row)
        assert sorted(map(len, row)) == sorted(map(len, drawn.clusters[0])), "sizes do not depend on chance"
    if drawn.participants:
        assert fewest <= len(drawn.participants) <= wanted
    elif len(there) >= per_cluster and wanted >= 40 and largest >= 20:
        # All atoms (at most 40 parties) in one cluster of 20 or more: only too few parties can be the reason.
        sizes = sorted(map(len, there))
        assert sum(sizes) < fewest or max(sizes) * (2 * per_cluster - 1) > largest


def test_absent_atoms_leave_the_others_as_they_are() -> None:
    atoms = form_atoms(seed(1), parties(23), 4)
    there = whole(atoms, set(parties(23)) - {atoms[1][0], atoms[3][2]})
    assert there == (atoms[0], atoms[2], atoms[4])
    assert not splits(atoms, set(itertools.chain(*there)))
    assert splits(atoms, {*atoms[0], atoms[1][0]})
    assert not splits(atoms, set())


def test_pairs_of_atoms_meet_equally_often() -> None:
    atoms = form_atoms(seed(1), parties(12), 2)
    meetings = Counter(
        pair
        for n in range(1_000)
        for members in union(atoms, n, 2).clusters[0]
        for pair in itertools.combinations([atom for atom in atoms if set(atom) <= set(members)], 2)
    )
    assert len(meetings) == 15
    assert sum((seen - 200) ** 2 / 200 for seen in meetings.values()) < CHI_SQUARE_1E6_OF_14


@given(
    case=atoms_with_absences(),
    per_cluster=st.integers(1, 3),
    reclusterings=st.integers(1, 3),
    least=st.integers(1, 12),
    data=st.data(),
)
@settings(deadline=None, max_examples=examples(60))
def test_survivors_are_whole_atoms_and_the_most_of_them(
    case: tuple[tuple[Atom, ...], tuple[Atom, ...]],
    per_cluster: int,
    reclusterings: int,
    least: int,
    data: st.DataObject,
) -> None:
    drawn = union(case[1][:7], 5, per_cluster, reclusterings)
    instances = {(r, j): m for r, row in enumerate(drawn.clusters) for j, m in enumerate(row)}
    places = [(key, party) for key, members in instances.items() for party in members]
    lost = data.draw(st.sets(st.sampled_from(places), max_size=4)) if places else set()
    submitted = {key: [p for p in members if (key, p) not in lost] for key, members in instances.items()}
    survivors = survivor_set(instances, submitted, least, drawn.atoms)
    assert not splits(drawn.atoms, survivors)
    assert is_closed(instances, survivors, least)
    dropped = {party for _, party in lost}
    intact = [atom for atom in drawn.atoms if dropped.isdisjoint(atom)]
    candidates = (
        frozenset(itertools.chain(*chosen))
        for count in range(len(intact), -1, -1)
        for chosen in itertools.combinations(intact, count)
    )
    closed = [candidate for candidate in candidates if is_closed(instances, candidate, least)]
    assert survivors in closed
    assert all(candidate <= survivors for candidate in closed)


def test_without_atoms_the_digest_is_as_before() -> None:
    atoms = form_atoms(seed(1), parties(8), 2)
    drawn = union(atoms, 1)
    bare = Assignment(drawn.participants, drawn.clusters)
    other = Assignment(drawn.participants, drawn.clusters, drawn.atoms[::-1])
    assert len({drawn.digest(), bare.digest(), other.digest()}) == 3
