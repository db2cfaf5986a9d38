"""Atoms that parties keep over runs: statements, agreement, and the atoms of a run around them."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.ids import PartyId
from securefl.methods.clustering.atoms import form_atoms
from securefl.methods.clustering.kept_atoms import (
    MOST_LABELLED,
    Atom,
    KeptAtoms,
    agreed_atoms,
    counting_atoms,
    is_founded,
    kept_by,
    kept_in,
    statement_of,
    without_atoms,
)

NAMES = tuple(PartyId(f"p{k:02}") for k in range(12))
SEED = bytes(range(32))
SIZES = range(2, 5)


def atom(*places: int) -> Atom:
    return tuple(NAMES[place] for place in places)


@st.composite
def some_kept(draw: st.DrawFn, names: tuple[PartyId, ...] = NAMES) -> KeptAtoms:
    """Disjoint atoms of two to four parties, and some of the others waiting."""
    order = list(draw(st.permutations(names)))
    atoms = []
    for size in draw(st.lists(st.integers(2, 4), max_size=4)):
        if len(order) >= size:
            atoms.append(tuple(sorted(order[:size])))
            order = order[size:]
    waiting = draw(st.sets(st.sampled_from(order))) if order else set()
    closed = draw(st.integers(0, len(atoms)))
    return KeptAtoms(tuple(sorted(atoms[closed:])), frozenset(waiting), tuple(sorted(atoms[:closed])))


@given(some_kept())
def test_a_statement_and_a_seed_hold_them(kept: KeptAtoms) -> None:
    stated = statement_of(kept, NAMES)
    assert kept_in(stated, NAMES) == kept
    assert not is_founded(stated)
    assert kept_in(SEED + kept.labels(NAMES), NAMES) == kept
    assert is_founded(SEED + kept.labels(NAMES))


@pytest.mark.parametrize("parties", [15, 16, 17])
def test_no_statement_is_taken_for_a_seed(parties: int) -> None:
    """With 16 parties the labels alone are as long as a seed."""
    names = [PartyId(f"q{k:02}") for k in range(parties)]
    kept = KeptAtoms(((names[0], names[1]),))
    assert not is_founded(statement_of(kept, names))
    assert kept_in(statement_of(kept, names), names) == kept
    assert is_founded(SEED)
    assert not is_founded(b"")


@pytest.mark.parametrize(
    "labels",
    [b"\0", b"\0\0", b"\0\1" * 11, bytes(24), b"\0\2" * 2 + bytes(20), b"\0\2" * 2 + b"\0\1" * 2 + bytes(16)],
    ids=["half a label", "one party", "eleven parties", "nothing", "number 2 alone", "not ascending"],
)
def test_labels_of_another_form_are_refused(labels: bytes) -> None:
    with pytest.raises(ValueError, match="labels"):
        KeptAtoms.of_labels(labels, NAMES)


@given(some_kept(), st.binary(min_size=32, max_size=32), st.integers(2, 4))
def test_a_run_forms_its_atoms_around_them(kept: KeptAtoms, seed: bytes, size: int) -> None:
    atoms = form_atoms(seed + kept.labels(NAMES), NAMES, size)
    assert sorted(party for one in atoms for party in one) == list(NAMES)
    together = (*kept.atoms, *kept.closed)
    for one in together:
        assert sum(set(one) <= set(whole) for whole in atoms) == 1, "a kept atom is split"
    assert all(len(one) >= min(size, *map(len, together), 12) for one in atoms)
    assert all(sum(set(one) <= set(whole) for one in together) <= 1 for whole in atoms)


def test_without_them_the_atoms_are_those_of_the_seed_alone() -> None:
    assert form_atoms(SEED, NAMES, 3) == form_atoms(SEED + KeptAtoms().labels(NAMES), NAMES, 3)


@given(some_kept(), st.binary(min_size=32, max_size=32), st.integers(2, 4))
def test_a_sum_of_atoms_has_whole_kept_atoms_or_nothing_of_them(
    kept: KeptAtoms, seed: bytes, size: int
) -> None:
    """What counts in any union of a run's atoms: kept atoms, and newcomers in numbers that hide them."""
    atoms = form_atoms(seed + kept.labels(NAMES), NAMES, size)
    counting = counting_atoms(atoms, kept, size)
    assert set(kept.atoms) <= set(counting)
    assert not {party for one in counting for party in one} & kept.waiting.union(*kept.closed)
    for one in counting:
        assert one in kept.atoms or len(one) >= size
        assert sum(bool(set(one) & set(whole)) for whole in atoms) == 1
    for one, other in combinations(counting, 2):
        assert not set(one) & set(other)


def test_newcomers_that_are_too_few_give_nothing() -> None:
    kept = KeptAtoms((atom(0, 1, 2), atom(3, 4, 5), atom(6, 7, 8)))
    names = NAMES[:11]
    atoms = form_atoms(SEED + kept.labels(names), names, 3)
    assert counting_atoms(atoms, kept, 3) == kept.atoms
    assert {len(one) for one in atoms} == {3, 4}, "the two newcomers join two atoms"
    # A third one makes an atom.
    atoms = form_atoms(SEED + kept.labels(NAMES), NAMES, 3)
    assert counting_atoms(atoms, kept, 3) == (*kept.atoms, atom(9, 10, 11))


def test_a_party_states_what_lies_in_the_roster() -> None:
    known = (atom(0, 1), atom(2, 11), atom(3, 4))
    assert kept_by(NAMES[0], known, NAMES[:6]) == KeptAtoms((atom(0, 1), atom(3, 4)))
    assert kept_by(NAMES[2], known, NAMES[:6]) == KeptAtoms((atom(0, 1), atom(3, 4)), frozenset({NAMES[2]}))
    assert kept_by(NAMES[5], (), NAMES[:6]) == KeptAtoms()


def stated(*said: tuple[int, KeptAtoms]) -> dict[PartyId, bytes]:
    return {NAMES[place]: statement_of(kept, NAMES) for place, kept in said}


FIRST = KeptAtoms((atom(0, 1), atom(2, 3)))


@pytest.mark.parametrize(
    ("said", "colluders", "expected"),
    [
        ((), 0, KeptAtoms()),
        (((0, FIRST),), 0, FIRST),
        # As many statements as colluders could make.
        (((0, FIRST),), 1, KeptAtoms((), frozenset(atom(0)))),
        (((0, FIRST), (5, FIRST)), 1, FIRST),
        # A member that is not there, or has no atom yet, is in it by the word of the others.
        (((2, FIRST), (4, KeptAtoms())), 0, FIRST),
        # A member that states another atom.
        (
            ((0, FIRST), (1, KeptAtoms((atom(1, 4),))), (5, FIRST)),
            1,
            KeptAtoms((atom(2, 3),), closed=(atom(0, 1),)),
        ),
        # A member that waits: its atom lies outside.
        (
            ((0, FIRST), (5, FIRST), (1, KeptAtoms((), frozenset(atom(1))))),
            1,
            KeptAtoms((atom(2, 3),), closed=(atom(0, 1),)),
        ),
        # Two atoms that overlap, each with enough statements: neither.
        (
            ((4, KeptAtoms((atom(0, 1),))), (5, KeptAtoms((atom(1, 2),)))),
            0,
            KeptAtoms((), frozenset(atom(0, 1, 2))),
        ),
        # An atom of a size that this run cannot have.
        (((4, KeptAtoms((atom(0, 1, 2, 3, 6),))),), 0, KeptAtoms((), frozenset(atom(0, 1, 2, 3, 6)))),
    ],
)
def test_what_enough_parties_state_is_agreed(
    said: tuple[tuple[int, KeptAtoms], ...], colluders: int, expected: KeptAtoms
) -> None:
    assert agreed_atoms(stated(*said), NAMES, colluders, SIZES) == expected


@pytest.mark.parametrize(
    "raw", [SEED, b"\x01", b"\x01\0", b"\x02" + FIRST.labels(NAMES), b"\x01" + bytes(24)]
)
def test_a_statement_of_another_form_states_nothing(raw: bytes) -> None:
    assert agreed_atoms({NAMES[7]: raw}, NAMES, 0, SIZES) == KeptAtoms()


@given(st.lists(some_kept(), min_size=1, max_size=5), st.integers(0, 2))
def test_what_is_agreed_is_disjoint_and_fits(said: list[KeptAtoms], colluders: int) -> None:
    agreed = agreed_atoms(stated(*enumerate(said)), NAMES, colluders, SIZES)
    members = [party for one in (*agreed.atoms, *agreed.closed) for party in one]
    assert len(members) == len(set(members))
    assert not set(members) & agreed.waiting
    for one in agreed.atoms:
        assert sum(one in kept.atoms for kept in said) > colluders
    for place, kept in enumerate(said):
        own = next((one for one in kept.atoms if NAMES[place] in one), None)
        if own is not None:
            assert own in agreed.atoms or NAMES[place] in agreed.waiting.union(*agreed.closed)


@given(st.binary(min_size=32, max_size=32))
def test_parties_that_state_that_they_wait_are_dealt_as_all_others(seed: bytes) -> None:
    """Colluders that were dealt apart would be mates, and would choose whom they surround."""
    liars = KeptAtoms((), frozenset(atom(1, 5, 9)))
    assert form_atoms(seed + liars.labels(NAMES), NAMES, 3) == form_atoms(seed, NAMES, 3)


@pytest.mark.parametrize("closed", [False, True])
def test_the_largest_roster_has_labels(closed: bool) -> None:
    names = [PartyId(f"n{k:05}") for k in range(MOST_LABELLED)]
    atoms = tuple(zip(names[::2], names[1::2], strict=True))
    kept = KeptAtoms((), closed=atoms) if closed else KeptAtoms(atoms)
    assert KeptAtoms.of_labels(kept.labels(names), names) == kept


def test_where_a_run_cannot_use_them_their_members_wait() -> None:
    assert without_atoms(KeptAtoms((atom(0, 1),), frozenset(atom(2)))) == KeptAtoms(
        (), frozenset(atom(0, 1, 2))
    )
