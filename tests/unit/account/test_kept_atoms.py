"""Atoms in an account: the first one with its owner is the owner's for good, under any roster's names."""

from __future__ import annotations

from pathlib import Path

from securefl.base.ids import PartyId
from securefl.methods.clustering.kept_atoms import Atom
from securefl.protocol.kernel.effects import AtomsCounted
from securefl.runtime.account.entries import Begun, CountedAtoms
from securefl.runtime.account.file import AccountFile, begin_account
from securefl.runtime.account.run_account import OpenAccount, OwnData
from securefl.runtime.account.summary import atoms_entry, kept_atoms_of, key_digest, own_atom_keys
from tests.simulation.world import World, scenario
from tests.unit.account.test_account_summary import identities, joined, roster_of
from tests.unit.account.test_unresolved import SHARD

P = [PartyId(f"p{k:02}") for k in range(6)]
MADE = identities(*P)
ROSTER = roster_of(MADE)
BEGUN = Begun(name=P[0], key=key_digest(ROSTER.parties[P[0]]))


def counted(*atoms: Atom) -> CountedAtoms:
    return atoms_entry(AtomsCounted(atoms), ROSTER)


def test_the_first_atom_of_the_owner_stays_and_of_others_the_latest_counts() -> None:
    first, second = counted((P[0], P[1]), (P[2], P[3])), counted((P[0], P[2]), (P[3], P[4]))
    entries = (BEGUN, joined(ROSTER), first, second)
    assert kept_atoms_of(entries, ROSTER) == ((P[0], P[1]), (P[3], P[4]))
    assert own_atom_keys(entries, ROSTER.parties[P[0]]) == (key_digest(ROSTER.parties[P[1]]),)


def test_names_are_those_of_the_roster_at_hand() -> None:
    """Atoms are of keys: a party that has another name now is the same; a key that is gone has no name."""
    entries = (BEGUN, joined(ROSTER), counted((P[0], P[1]), (P[2], P[3])))
    some = {name: one for name, one in MADE.items() if name not in {P[1], P[4], P[5]}}
    own, *rest = kept_atoms_of(entries, roster_of(some, p02="ward"))
    assert P[0] in own
    assert P[1] not in own
    assert len(own) == 2
    assert rest == [(P[3], PartyId("ward"))]


def test_an_account_without_metrics_knows_none() -> None:
    assert kept_atoms_of((BEGUN, joined(ROSTER)), ROSTER) == ()
    assert own_atom_keys((BEGUN, joined(ROSTER)), ROSTER.parties[P[0]]) == ()


def test_a_book_enters_atoms_once(tmp_path: Path) -> None:
    world = World(scenario(6), length=4)
    owner = world.plan.roster.parties[P[0]]
    path = tmp_path / "p00.account"
    begin_account(path, owner)
    atoms = AtomsCounted(((P[0], P[1]), (P[2], P[3], P[4])))
    for times in range(2):
        with AccountFile(path, owner, None) as file:
            book = OpenAccount(file, world.plan, OwnData.of(SHARD))
            assert book.kept == (atoms.atoms if times else ())
            book.enter(atoms)
            book.enter(atoms)
            assert book.kept == atoms.atoms
            found = [one for one in file.entries if isinstance(one, CountedAtoms)]
            assert [one.atoms for one in found] == [((0, 1), (2, 3, 4))]
