"""Numbers that follow directly from a scenario: participants, cluster sizes, quorum, encoding steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from securefl.base.errors import UsageError
from securefl.base.sums import exact_sum
from securefl.scenario import Clustering, Groups, Scenario, Training

MAX_DRAWS = 3
"""Draws of nonces in one round, the first included: a withheld nonce voids a draw (protocol.md, step 2)."""


def cluster_sizes(participants: int, size: int) -> tuple[int, ...]:
    """Planned sizes: floor(participants / size) clusters, as even as can be, none smaller than ``size``.

    Raises:
        UsageError: fewer participants than one cluster needs.
    """
    if not 1 <= size <= participants:
        raise UsageError(f"{participants} participants do not fill a cluster of {size}")
    clusters = participants // size
    base, larger = divmod(participants, clusters)
    return (base + 1,) * larger + (base,) * (clusters - larger)


def most_fitting(most: int, fewest: int, size: int, largest: int) -> int:
    """The most parties, of ``most`` down to ``fewest`` >= ``size``, that make no cluster above ``largest``.

    Fewer parties make fewer and so larger clusters. 0 where there is no such number.
    """
    fitting = (n for n in range(most, fewest - 1, -1) if max(cluster_sizes(n, size)) <= largest)
    return next(fitting, 0)


def atom_sizes(parties: int, size: int) -> tuple[int, ...]:
    """Members of the atoms of a run, larger ones first: as many atoms of at least ``size`` as there can be.

    Raises:
        UsageError: fewer parties than one atom needs.
    """
    return cluster_sizes(parties, size)


def dealt(atoms: Sequence[int], per_cluster: int) -> tuple[tuple[int, ...], ...]:
    """The atoms of each cluster: floor(atoms / per_cluster) clusters, by places in ``atoms``.

    Atoms are dealt like cards, larger ones first, so that clusters differ by one atom at most, and their
    sizes follow from the atoms' sizes alone.

    Args:
        atoms: sizes in any order.
        per_cluster: fewest atoms of a cluster.

    Raises:
        UsageError: fewer atoms than one cluster needs.
    """
    clusters = len(cluster_sizes(len(atoms), per_cluster))
    order = sorted(range(len(atoms)), key=lambda place: -atoms[place])
    return tuple(tuple(order[start::clusters]) for start in range(clusters))


def planned_atoms(scenario: Scenario) -> tuple[tuple[int, ...], ...]:
    """The sizes of the atoms in each planned cluster, in the order of :func:`planned_sizes`.

    Without atoms each member is one of size 1.
    """
    clustering, participants = scenario.clustering, participants_of(scenario)
    atoms = atom_sizes(participants, clustering.atoms)
    clusters = [[atoms[k] for k in places] for places in dealt(atoms, atoms_per_cluster(scenario.clustering))]
    return tuple(sorted((tuple(sizes) for sizes in clusters), key=exact_sum, reverse=True))


def atoms_per_cluster(clustering: Clustering) -> int:
    """Fewest atoms of a cluster."""
    return clustering.size // clustering.atoms


def planned_sizes(scenario: Scenario) -> tuple[int, ...]:
    """Members of the clusters when everybody who is planned takes part, larger ones first."""
    return tuple(exact_sum(atoms) for atoms in planned_atoms(scenario))


def largest_cluster(scenario: Scenario) -> int:
    """The most members that a cluster can have when parties stay away: clusters become fewer and so may grow.

    That is up to 2 m - 1, or up to 2 g - 1 atoms for clusters planned of g.
    """
    clustering, participants = scenario.clustering, participants_of(scenario)
    largest_atom = max(atom_sizes(scenario.parties, clustering.atoms))
    return min(participants, (2 * atoms_per_cluster(scenario.clustering) - 1) * largest_atom)


def max_cluster_size(scenario: Scenario) -> int:
    """The largest cluster that a round may form, whoever stays away; with a larger one it must not go on.

    Against an active server they may not grow beyond 2 t - f - 1, where 2 t - m > f ends (protocol.md,
    Parameters): else the server could choose who is present such that it can open two sums of one cluster.
    With shared noise whose premise holds by chance only, they do not grow either: in a larger cluster more
    colluders meet than its stated probability covers. Fixed clusters never grow.
    """
    plan = scenario.secure_sum
    if scenario.clustering.fixed:
        return max(cluster_sizes(scenario.parties, scenario.clustering.size))
    if rests_on_chance(scenario):
        return max(planned_sizes(scenario))
    largest = largest_cluster(scenario)
    if plan.server == "active":
        largest = min(largest, 2 * plan.threshold - plan.colluders_per_cluster - 1)
    return largest


def rests_on_chance(scenario: Scenario) -> bool:
    """Whether shared noise is reckoned for fewer colluders in a cluster than there are (f < q)."""
    plan, privacy = scenario.secure_sum, scenario.privacy
    return privacy.unit != "none" and privacy.shared and plan.colluders > plan.colluders_per_cluster


def participants_of(scenario: Scenario) -> int:
    """The number of participants in a round: all, the count, or the fraction rounded to a whole number."""
    drawn = scenario.participation
    if drawn.count is not None:
        return drawn.count
    if drawn.fraction is not None:
        return max(1, math.floor(drawn.fraction * scenario.parties + 0.5))
    return scenario.parties


def quorum_of(parties: int, colluders: int) -> int:
    """Signatures of distinct roster identities that make a certificate: the least above (N + q) / 2."""
    return (parties + colluders) // 2 + 1


def leakage_colluders(scenario: Scenario) -> int:
    """Colluders that a combination of sums is reckoned to hold, unless ``leakage`` says how many.

    f where every combination has whole clusters or atoms. Several sums of one update combine in more ways,
    of parties from any clusters, and f is no bound on these: then q.
    """
    given, clustering = scenario.leakage.colluders, scenario.clustering
    if given is not None:
        return given
    together = clustering.reclusterings > 1 and works_of(scenario.clustering) == 1 and clustering.atoms == 1
    return scenario.secure_sum.colluders if together else scenario.secure_sum.colluders_per_cluster


def works_of(clustering: Clustering) -> int:
    """The number of local trainings in a round, each from the same model: R with ``new_work``, else once."""
    return clustering.reclusterings if clustering.new_work else 1


def work_of(clustering: Clustering, reclustering: int) -> int:
    """The number of the local work whose update a reclustering sums."""
    return reclustering if clustering.new_work else 0


COUNTS = 0
"""With hidden groups: the place among reclusterings at which counts are summed; slot j is at 1 + j."""


def hides_groups(groups: Groups) -> bool:
    """Whether each cluster sums counts and k slots, in the places of reclusterings (ADR 0026)."""
    return groups.count > 1 and groups.mode == "hidden"


def tells_groups(groups: Groups) -> bool:
    """Whether parties tell their task group in their hello, and clusters lie inside groups."""
    return groups.count > 1 and groups.mode == "open"


def group_sizes(scenario: Scenario) -> tuple[int, ...]:
    """Parties in each task group; as even as can be where the scenario does not say."""
    groups = scenario.groups
    return groups.sizes or tuple(
        len(range(group, scenario.parties, groups.count)) for group in range(groups.count)
    )


def upload_of(scenario: Scenario, reclustering: int) -> int:
    """The number of the upload that a reclustering sums: of its local work, or of its slot."""
    return reclustering if hides_groups(scenario.groups) else work_of(scenario.clustering, reclustering)


def sums_apart(scenario: Scenario) -> bool:
    """Whether each reclustering sums an update of its own."""
    return works_of(scenario.clustering) > 1 or hides_groups(scenario.groups)


def steps_of(scenario: Scenario) -> int:
    """Largest magnitude of an encoded coordinate, floor(range * 2^scale_bits), computed exactly."""
    numerator, denominator = scenario.encoding.range.as_integer_ratio()
    return (numerator << scenario.encoding.scale_bits) // denominator


def batch_size_of(config: Training, samples: int) -> int:
    """The most samples in a batch of a party that holds ``samples``; a share is rounded, 1 at least."""
    if config.batch_fraction is None:
        return config.batch_size
    return max(1, math.floor(config.batch_fraction * samples + 0.5))
