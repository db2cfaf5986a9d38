"""Global survivor set: a party is counted in all R sums of a round or in none (protocol.md, step 6)."""

from collections.abc import Collection, Iterable, Mapping

from securefl.base.ids import PartyId


def survivor_set(
    instances: Mapping[tuple[int, int], Collection[PartyId]],
    submitted: Mapping[tuple[int, int], Collection[PartyId]],
    min_survivors: int,
    atoms: Iterable[Collection[PartyId]] = (),
) -> frozenset[PartyId]:
    """Return the largest set S that may be opened; dropouts can cascade through reclusterings.

    Args:
        instances: members by (reclustering, cluster), as assigned.
        submitted: members whose masked input arrived, by instance; lost instances have none.
        min_survivors: an instance with fewer members in S removes its members from S in all instances.
        atoms: blocks of which S has all members or none; every instance is a union of them.
    """
    survivors = {party for members in instances.values() for party in members}
    for key, members in instances.items():
        survivors -= set(members).difference(submitted.get(key, ()))
    for atom in atoms:
        if not survivors.issuperset(atom):
            survivors.difference_update(atom)
    # From here on, instances are removed whole, and so are atoms.
    while True:
        doomed = {
            party
            for members in instances.values()
            if len(alive := survivors.intersection(members)) < min_survivors
            for party in alive
        }
        if not doomed:
            return frozenset(survivors)
        survivors -= doomed


def is_closed(
    instances: Mapping[tuple[int, int], Collection[PartyId]],
    survivors: frozenset[PartyId],
    min_survivors: int,
) -> bool:
    """Return True if every instance keeps none or at least ``min_survivors`` of its members."""
    return all(
        not (alive := survivors.intersection(members)) or len(alive) >= min_survivors
        for members in instances.values()
    )
