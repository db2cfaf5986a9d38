"""Atoms that parties keep over runs, for sums of the same samples without noise (ADR 0060).

A site's metrics and statistics are nearly the same in each round and run, so their sums must not differ by
less than an atom. A party keeps its first atom for good, and each later run forms its atoms around the kept
ones.

Each hello states the atoms that its party knows. Atoms stated by more than ``colluders`` parties, so by an
honest one, are agreed. The draw that forms the atoms appends them to its seed, so each party forms the same
atoms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from securefl.base.ids import PartyId

Atom: TypeAlias = tuple[PartyId, ...]
"""Members of an atom, ascending."""

SEED_BYTES = 32
_STATED = b"\x01"
"""First byte of a statement, whose length is odd; the length of a seed with atoms is even."""
_FREE, _CLOSED, _WAITING = 0, 0x8000, 0xFFFF
MOST_LABELLED = 2 * (_CLOSED - 1)
"""Largest roster whose atoms, of two members or more, have labels."""


@dataclass(frozen=True, slots=True)
class KeptAtoms:
    """Atoms of earlier runs that lie in one roster."""

    atoms: tuple[Atom, ...] = ()
    """Disjoint, ascending."""
    waiting: frozenset[PartyId] = frozenset()
    """Parties in none of these atoms that have another one: they send no metrics in this run."""
    closed: tuple[Atom, ...] = ()
    """Atoms of which a member states another one: they stay together, and send no metrics in this run."""

    @property
    def bound(self) -> frozenset[PartyId]:
        """Parties that the draw does not deal to atoms."""
        return frozenset[PartyId]().union(*self.atoms, *self.closed)

    def labels(self, roster: Iterable[PartyId]) -> bytes:
        """Return a label of two bytes for each party of the roster, in the order of names; empty for none."""
        numbers = {party: number for number, atom in enumerate(self.atoms, 1) for party in atom}
        numbers |= {party: _CLOSED + number for number, atom in enumerate(self.closed) for party in atom}
        found = [_WAITING if one in self.waiting else numbers.get(one, _FREE) for one in sorted(roster)]
        return b"".join(label.to_bytes(2, "big") for label in found) if any(found) else b""

    @classmethod
    def of_labels(cls, labels: bytes, roster: Iterable[PartyId]) -> KeptAtoms:
        """Return the atoms that labels describe; labels not as from :meth:`labels` are a ValueError."""
        names = sorted(roster)
        if not labels:
            return cls()
        if len(labels) != 2 * len(names):
            raise ValueError(f"labels of {len(labels) // 2} parties, and the roster has {len(names)}")
        numbers = [int.from_bytes(labels[2 * k : 2 * k + 2], "big") for k in range(len(names))]
        members: dict[int, list[PartyId]] = {}
        for party, number in zip(names, numbers, strict=True):
            members.setdefault(number, []).append(party)
        waiting = frozenset(members.pop(_WAITING, ()))
        members.pop(_FREE, None)
        atoms = sorted(tuple(some) for number, some in members.items() if number < _CLOSED)
        closed = sorted(tuple(some) for number, some in members.items() if number >= _CLOSED)
        found = cls(tuple(atoms), waiting, tuple(closed))
        if found.labels(names) != labels:
            raise ValueError("labels that are not in their canonical form")
        return found


def kept_by(owner: PartyId, atoms: Iterable[Atom], roster: Collection[PartyId]) -> KeptAtoms:
    """Return a party's statement: the known atoms with all members in the roster.

    Args:
        owner: party of the statement. If its own atom is not in the roster, it waits.
        atoms: known atoms, disjoint, including the owner's if it has one.
        roster: parties of the run.
    """
    known = frozenset(roster)
    there = tuple(sorted(atom for atom in atoms if known.issuperset(atom)))
    waits = any(owner in atom and not known.issuperset(atom) for atom in atoms)
    return KeptAtoms(there, frozenset({owner} if waits else ()))


def statement_of(kept: KeptAtoms, roster: Iterable[PartyId]) -> bytes:
    """Return the bytes that state atoms in a hello; empty for none."""
    labels = kept.labels(roster)
    return _STATED + labels if labels else b""


def is_founded(atom_seed: bytes) -> bool:
    """Return True for a seed that has formed atoms; False for a statement of kept ones, or nothing."""
    return len(atom_seed) >= SEED_BYTES and len(atom_seed) % 2 == 0


def kept_in(atom_seed: bytes, roster: Iterable[PartyId]) -> KeptAtoms:
    """Return the kept atoms in an atom seed or a statement; raise a ValueError if they do not fit."""
    start = SEED_BYTES if is_founded(atom_seed) else len(_STATED)
    return KeptAtoms.of_labels(atom_seed[start:], roster)


def agreed_atoms(
    stated: Mapping[PartyId, bytes], roster: Collection[PartyId], colluders: int, sizes: range
) -> KeptAtoms:
    """Return the kept atoms on which the parties of a draw agree.

    More than ``colluders`` parties state an agreed atom, and none of its members states another one. If a
    member does, the atom is closed: it stays together, or a colluder could have it dealt anew and choose its
    mates. Parties of other atoms wait. Statements that do not fit the roster count as empty; ``sizes`` are
    the allowed numbers of members.
    """
    claims_by_party = {party: _read(raw, roster) for party, raw in stated.items()}
    own = {
        party: next((atom for atom in kept.atoms if party in atom), ())
        for party, kept in claims_by_party.items()
        if party in kept.waiting or any(party in atom for atom in kept.atoms)
    }
    counted = Counter(atom for kept in claims_by_party.values() for atom in kept.atoms)
    vouched = [atom for atom, times in counted.items() if times > colluders]
    claims = Counter(party for atom in vouched for party in atom)
    whole = sorted(atom for atom in vouched if len(atom) in sizes and all(claims[one] == 1 for one in atom))
    agreed = [atom for atom in whole if all(own.get(one, atom) == atom for one in atom)]
    closed = [atom for atom in whole if atom not in agreed]
    waiting = (own.keys() | claims.keys()) - {party for atom in whole for party in atom}
    return KeptAtoms(tuple(agreed), frozenset(waiting), tuple(closed))


def without_atoms(kept: KeptAtoms) -> KeptAtoms:
    """Return the state if a run cannot use the atoms: all of their members wait."""
    return KeptAtoms((), kept.waiting | kept.bound)


def counting_atoms(atoms: Iterable[Atom], kept: KeptAtoms, fewest: int) -> tuple[Atom, ...]:
    """Return the parties that send metrics, in the atoms that they keep from then on.

    These are the kept atoms, and the newcomers of each atom of the run if there are at least ``fewest`` (f +
    k: number of members of an atom that hide one of them).
    """
    bound = kept.waiting | kept.bound
    newcomers = (tuple(party for party in atom if party not in bound) for atom in atoms)
    return tuple(sorted((*kept.atoms, *(atom for atom in newcomers if len(atom) >= fewest))))


def _read(raw: bytes, roster: Collection[PartyId]) -> KeptAtoms:
    if is_founded(raw) or not raw.startswith(_STATED):
        return KeptAtoms()
    try:
        return KeptAtoms.of_labels(raw[len(_STATED) :], roster)
    except ValueError:
        return KeptAtoms()
