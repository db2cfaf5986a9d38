"""Numbers that follow from a scenario: participants and planned cluster sizes."""

import math
from collections.abc import Sequence

from securefl.base import sums
from securefl.base.errors import UsageError
from securefl.scenario.scenario import Clustering, Groups, Scenario


def participants_of(scenario: Scenario) -> int:
    """Return the number of participants of a round: all, the count, or the rounded fraction."""
    drawn = scenario.participation
    if drawn.count is not None:
        return drawn.count
    if drawn.fraction is not None:
        return max(1, math.floor(drawn.fraction * scenario.parties + 0.5))
    return scenario.parties


def cluster_sizes(participants: int, size: int) -> tuple[int, ...]:
    """Return the planned sizes of floor(participants / size) clusters, as even as possible.

    Raises:
        UsageError: fewer participants than one cluster needs.
    """
    if not 1 <= size <= participants:
        raise UsageError(
            f"size of a cluster must be from 1 to {participants}, the number of participants; found {size}"
        )
    clusters = participants // size
    base, larger = divmod(participants, clusters)
    return (base + 1,) * larger + (base,) * (clusters - larger)


def atom_sizes(parties: int, size: int) -> tuple[int, ...]:
    """Return the sizes of as many atoms of at least ``size`` as possible, larger first.

    Raises:
        UsageError: fewer parties than one atom needs.
    """
    return cluster_sizes(parties, size)


def atoms_per_cluster(clustering: Clustering) -> int:
    """Return the fewest atoms of a cluster."""
    return clustering.size // clustering.atoms


def dealt(atoms: Sequence[int], per_cluster: int) -> tuple[tuple[int, ...], ...]:
    """Return the atoms of each of floor(atoms / per_cluster) clusters, as indices into the sizes ``atoms``.

    Atoms are dealt in turn, larger ones first, so that clusters differ by at most one atom.

    Raises:
        UsageError: fewer atoms than one cluster needs.
    """
    clusters = len(cluster_sizes(len(atoms), per_cluster))
    order = sorted(range(len(atoms)), key=lambda place: -atoms[place])
    return tuple(tuple(order[start::clusters]) for start in range(clusters))


def planned_atoms(scenario: Scenario) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of the atoms in each planned cluster, larger clusters first.

    Without atoms each has size 1.
    """
    clustering, participants = scenario.clustering, participants_of(scenario)
    atoms = atom_sizes(participants, clustering.atoms)
    clusters = [[atoms[k] for k in places] for places in dealt(atoms, atoms_per_cluster(scenario.clustering))]
    return tuple(sorted((tuple(sizes) for sizes in clusters), key=sums.exact_sum, reverse=True))


def planned_sizes(scenario: Scenario) -> tuple[int, ...]:
    """Return the members of each planned cluster, larger clusters first."""
    return tuple(sums.exact_sum(atoms) for atoms in planned_atoms(scenario))


def majority_of(size: int, f: int) -> int:
    """Return the least t with which two groups of t of ``size`` members share more than f: 2 t - size > f."""
    return (size + f) // 2 + 1


def leakage_colluders(scenario: Scenario) -> int:
    """Return ``leakage.colluders``, or its default f or q.

    f if every combination of sums consists of whole clusters or atoms. Several sums of one update combine
    parties of any clusters, which f does not bound: then q.
    """
    given, clustering = scenario.leakage.colluders, scenario.clustering
    if given is not None:
        return given
    together = clustering.reclusterings > 1 and works_of(scenario.clustering) == 1 and clustering.atoms == 1
    return scenario.secure_sum.colluders if together else scenario.secure_sum.colluders_per_cluster


def works_of(clustering: Clustering) -> int:
    """Return the number of local trainings in a round: R with ``new_work``, else 1."""
    return clustering.reclusterings if clustering.new_work else 1


def hides_groups(groups: Groups) -> bool:
    """Return True if each cluster sums counts and k slots, in place of reclusterings (ADR 0026)."""
    return groups.count > 1 and groups.mode == "hidden"


def tells_groups(groups: Groups) -> bool:
    """Return True if parties send their task group, and clusters lie inside groups."""
    return groups.count > 1 and groups.mode == "open"
