"""Atoms: blocks of parties, fixed for a run, whose updates are only ever opened together.

Clusters are unions of atoms, and survivor sets have whole atoms only. So every linear combination of opened
sums, of any rounds, contains all members of an atom with equal coefficients. Colluders can subtract their own
updates.

Source: So et al. 2021 (arXiv 2106.03328), for batches of users; here also for reclusterings, survivor sets
and colluders.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from securefl.base import sums
from securefl.base.ids import PartyId
from securefl.methods.clustering import assignment, kept_atoms
from securefl.methods.clustering.sizes import atom_sizes, dealt


def form_atoms(atom_seed: bytes, roster: Iterable[PartyId], size: int) -> tuple[kept_atoms.Atom, ...]:
    """Return the atoms of a run, ascending; every party of the roster, absent ones included, is in one.

    Kept atoms of earlier runs do not change. Atoms have ``size`` members; parties beyond a multiple enlarge
    some, by one if possible. ``atom_seed`` is the certified seed of the atom draw, 32 bytes, and labels of
    kept atoms.

    Raises:
        UsageError: fewer parties than one atom needs.
        ValueError: the labels do not fit this roster.
    """
    names = sorted(roster)
    seed, kept = atom_seed[: kept_atoms.SEED_BYTES], kept_atoms.kept_in(atom_seed, names)
    # Statements of the parties do not matter: parties dealt apart could choose their mates.
    order = assignment.shuffle([party for party in names if party not in kept.bound], seed, "atoms")
    atoms = [list(atom) for atom in (*kept.atoms, *kept.closed)]
    if atoms and len(order) < size:
        for party in order:
            min(atoms, key=len).append(party)
        order = []
    start = 0
    for members in atom_sizes(len(order), size) if order or not atoms else ():
        atoms.append(order[start : start + members])
        start += members
    return tuple(sorted(tuple(sorted(atom)) for atom in atoms))


def whole(atoms: Iterable[kept_atoms.Atom], present: Collection[PartyId]) -> tuple[kept_atoms.Atom, ...]:
    """Return the atoms whose members are all present."""
    there = frozenset(present)
    return tuple(atom for atom in atoms if there.issuperset(atom))


def splits(atoms: Iterable[kept_atoms.Atom], survivors: Collection[PartyId]) -> bool:
    """Return True if a set of parties contains some members of an atom and lacks others."""
    counted = frozenset(survivors)
    return any(0 < len(counted.intersection(atom)) < len(atom) for atom in atoms)


def draw_unions(
    seed: bytes,
    atoms: Sequence[kept_atoms.Atom],
    per_cluster: int,
    reclusterings: int,
    *,
    fewest: int,
    wanted: int,
    largest: int,
) -> assignment.Assignment:
    """Draw participants and clusters, in whole atoms, from a round's certified seed, 32 bytes.

    As many of the present ``atoms`` as fit take part: up to ``wanted`` parties, or none if fewer than
    ``fewest``. Clusters of ``per_cluster`` or more atoms, and at most ``largest`` members, have equally many
    atoms, or one more. Larger atoms are spread evenly: sizes do not depend on the seed if all atoms take
    part.
    """
    order = assignment.shuffle(sorted(atoms), seed, "participants")
    chosen = next(
        (
            taken
            for taken in _prefixes(order, per_cluster, wanted, largest)
            if sums.exact_sum(map(len, taken)) >= fewest
        ),
        (),
    )
    rows = tuple(
        tuple(_unions(assignment.shuffle(chosen, seed, f"reclustering {r}"), per_cluster))
        for r in range(reclusterings)
    )
    return assignment.Assignment(tuple(sorted(party for atom in chosen for party in atom)), rows, chosen)


def _prefixes(
    order: Sequence[kept_atoms.Atom], per_cluster: int, wanted: int, largest: int
) -> Iterator[tuple[kept_atoms.Atom, ...]]:
    """Yield the leading atoms that may take part, ascending, longest prefix first."""
    for count in range(len(order), per_cluster - 1, -1):
        sizes = [len(atom) for atom in order[:count]]
        clusters = [sums.exact_sum(sizes[place] for place in places) for places in dealt(sizes, per_cluster)]
        if sums.exact_sum(sizes) <= wanted and max(clusters) <= largest:
            yield tuple(sorted(order[:count]))


def _unions(order: Sequence[kept_atoms.Atom], per_cluster: int) -> Iterator[tuple[PartyId, ...]]:
    for places in dealt([len(atom) for atom in order], per_cluster) if order else ():
        yield tuple(sorted(party for place in places for party in order[place]))
