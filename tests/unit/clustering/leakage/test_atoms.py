"""What sums of atoms determine, over reclusterings, rounds and dropouts: nothing smaller than an atom."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.ids import PartyId
from securefl.methods.clustering.atoms import draw_unions, form_atoms
from securefl.methods.clustering.kept_atoms import Atom
from securefl.methods.clustering.survivors import survivor_set
from securefl.methods.leakage.ledger import LeakageLedger, UpdateVersion
from securefl.methods.leakage.support import least_support
from tests.tiers import examples
from tests.unit.clustering.leakage import oracle
from tests.unit.clustering.leakage.oracle import rows_of
from tests.unit.clustering.leakage.smallest_groups import smallest_group

RECLUSTERINGS = 10_000
K, F = 2, 1
"""Honest members of the smallest atom, and colluders in any."""
SIZE, PARTIES = K + F, 22
ATOM_SEED = bytes(31) + b"\1"
EVERYBODY = [PartyId(f"p{i:02}") for i in range(PARTIES)]
Rows = frozenset[frozenset[PartyId]]


def ledger_of(rows: Iterable[Collection[PartyId]], parties: Iterable[PartyId] = EVERYBODY) -> LeakageLedger:
    ledger = LeakageLedger.begin(UpdateVersion(0), parties, oracle.PRIME)
    for row in rows:
        ledger = ledger.open(row)
    return ledger


def openings(
    atoms: tuple[Atom, ...], rounds: int, reclusterings: int, *, frozen_whole: bool
) -> Iterator[frozenset[PartyId]]:
    """All sums of a run with dropouts. Without ``frozen_whole`` a dropout leaves its atom mates."""
    chance = random.Random(1)
    for number in range(rounds):
        seed = number.to_bytes(32, "big")
        drawn = draw_unions(seed, atoms, 2, reclusterings, fewest=6, wanted=PARTIES, largest=PARTIES)
        instances = {(r, j): m for r, row in enumerate(drawn.clusters) for j, m in enumerate(row)}
        gone = set(chance.sample(EVERYBODY, chance.choice((0, 0, 1, 2))))
        submitted = {key: [p for p in m if p not in gone] for key, m in instances.items()}
        survivors = survivor_set(instances, submitted, K + F, drawn.atoms if frozen_whole else ())
        for members in instances.values():
            if alive := survivors.intersection(members):
                yield alive


@pytest.fixture(scope="module")
def run() -> tuple[tuple[Atom, ...], Rows]:
    """The atoms of one run, and all sums of its 10,000 reclusterings. Equal sums determine the same."""
    atoms = form_atoms(ATOM_SEED, EVERYBODY, SIZE)
    return atoms, frozenset(openings(atoms, RECLUSTERINGS // 2, 2, frozen_whole=True))


def test_ten_thousand_reclusterings_with_dropouts_determine_atoms_and_no_less(
    run: tuple[tuple[Atom, ...], Rows],
) -> None:
    """As if all updates stayed the same over the run, which is the most that its rounds can have in common.

    Sums only add to what is determined, so the whole run bounds each of its rounds, and any choice of them.
    """
    atoms, rows = run
    assert len(rows) > 40
    ledger = ledger_of(rows)
    assert ledger.echelon.rank == len(atoms), "every atom is determined, and nothing else"
    assert smallest_group(ledger, SIZE) is None
    found = least_support(ledger)
    assert found is not None
    assert found.exact
    assert found.parties in atoms
    assert not ledger.exposed


def test_with_any_f_colluders_in_each_atom_k_honest_ones_remain(run: tuple[tuple[Atom, ...], Rows]) -> None:
    atoms, rows = run
    ledger, chance = ledger_of(rows), random.Random(2)
    for _ in range(20):
        honest = ledger.without([chance.choice(atom) for atom in atoms])
        found = least_support(honest)
        assert found is not None
        assert len(found.parties) == found.at_least == K
        assert smallest_group(honest, K) is None
    beyond = ledger.without(atoms[0][: F + 1] if len(atoms[0]) == SIZE else atoms[0][: F + 2])
    assert beyond.exposed, "more than f colluders in one atom expose its last member"


def test_the_same_freeze_without_atoms_exposes_nearly_everybody(run: tuple[tuple[Atom, ...], Rows]) -> None:
    """The attack that atoms stop: a dropout leaves its mates, and a later sum has them all."""
    rows = set(itertools.islice(openings(run[0], 300, 2, frozen_whole=False), 600))
    assert len(ledger_of(rows).exposed) > PARTIES * 0.8


@given(data=st.data())
@settings(deadline=None, max_examples=examples(40))
def test_columns_of_atoms_stand_for_columns_of_parties(data: st.DataObject) -> None:
    """Every combination of unions has equal coefficients within an atom, by brute force over all sets."""
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    names = oracle.names(sum(sizes))
    ends = list(itertools.accumulate(sizes, initial=0))
    atoms = [tuple(names[a:b]) for a, b in itertools.pairwise(ends)]
    some = st.sets(st.integers(0, len(atoms) - 1), min_size=1)
    unions = data.draw(st.lists(some, min_size=1, max_size=6))
    by_party = ledger_of([{p for k in union for p in atoms[k]} for union in unions], names)
    labels = [atom[0] for atom in atoms]
    by_atom = ledger_of([{labels[k] for k in union} for union in unions], labels)
    assert by_party.echelon.rank == by_atom.echelon.rank
    expected = min(
        (
            sum(sizes[k] for k in chosen)
            for count in range(1, len(atoms) + 1)
            for chosen in itertools.combinations(range(len(atoms)), count)
            if oracle.contains(rows_of(by_atom), oracle.indicator(chosen, len(atoms)))
        ),
        default=None,
    )
    found = smallest_group(by_party, len(names) + 1)
    assert (None if found is None else len(found.parties)) == expected
    exposed = {atom[0] for atom in atoms if len(atom) == 1 and atom[0] in by_atom.exposed}
    assert by_party.exposed == exposed
