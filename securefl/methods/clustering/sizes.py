"""Numbers that follow directly from a scenario: largest clusters, quorum, works, encoding steps."""

import math

from securefl.scenario import (
    Clustering,
    Scenario,
    Training,
    atom_sizes,
    atoms_per_cluster,
    cluster_sizes,
    dealt,
    hides_groups,
    leakage_colluders,
    participants_of,
    planned_atoms,
    planned_sizes,
    tells_groups,
    works_of,
)

__all__ = [
    "COUNTS",
    "MAX_DRAWS",
    "atom_sizes",
    "atoms_per_cluster",
    "batch_size_of",
    "cluster_sizes",
    "dealt",
    "group_sizes",
    "hides_groups",
    "largest_cluster",
    "leakage_colluders",
    "max_cluster_size",
    "most_fitting",
    "participants_of",
    "planned_atoms",
    "planned_sizes",
    "quorum_of",
    "rests_on_chance",
    "steps_of",
    "sums_apart",
    "tells_groups",
    "upload_of",
    "work_of",
    "works_of",
]

MAX_DRAWS = 3
"""Largest number of draws of nonces in one round: a withheld nonce voids a draw (protocol.md, step 2)."""


def most_fitting(most: int, fewest: int, size: int, largest: int) -> int:
    """Return the largest number of parties, from ``most`` to ``fewest``, with no cluster above ``largest``.

    Fewer parties make fewer and so larger clusters. ``fewest`` >= ``size``; 0 if no number fits.
    """
    fitting = (n for n in range(most, fewest - 1, -1) if max(cluster_sizes(n, size)) <= largest)
    return next(fitting, 0)


def largest_cluster(scenario: Scenario) -> int:
    """Return the largest number of members of a cluster when parties are absent.

    Fewer clusters may grow up to 2 m - 1 members, or up to 2 g - 1 atoms for planned clusters of g.
    """
    clustering, participants = scenario.clustering, participants_of(scenario)
    largest_atom = max(atom_sizes(scenario.parties, clustering.atoms))
    return min(participants, (2 * atoms_per_cluster(scenario.clustering) - 1) * largest_atom)


def max_cluster_size(scenario: Scenario) -> int:
    """Return the largest cluster that a round may form, for any absences; with a larger one it must abort.

    Against an active server it is at most 2 t - f - 1: 2 t - m > f (protocol.md, Parameters), or it could
    open two sums of one cluster. Clusters do not grow if shared noise depends on chance, since larger ones
    contain more colluders than the stated probability covers. Fixed clusters never grow.
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
    """Return True if shared noise assumes fewer colluders in a cluster than there are (f < q)."""
    plan, privacy = scenario.secure_sum, scenario.privacy
    return privacy.unit != "none" and privacy.shared and plan.colluders > plan.colluders_per_cluster


def quorum_of(parties: int, colluders: int) -> int:
    """Return the number of roster signatures that make a certificate: the least above (N + q) / 2."""
    return (parties + colluders) // 2 + 1


def work_of(clustering: Clustering, reclustering: int) -> int:
    """Return the index of the local work whose update a reclustering sums."""
    return reclustering if clustering.new_work else 0


COUNTS = 0
"""Index among reclusterings at which counts are summed with hidden groups; slot j is at 1 + j."""


def group_sizes(scenario: Scenario) -> tuple[int, ...]:
    """Return the number of parties in each task group; as even as possible by default."""
    groups = scenario.groups
    return groups.sizes or tuple(
        len(range(group, scenario.parties, groups.count)) for group in range(groups.count)
    )


def upload_of(scenario: Scenario, reclustering: int) -> int:
    """Return the index of the upload that a reclustering sums: of its local work, or of its slot."""
    return reclustering if hides_groups(scenario.groups) else work_of(scenario.clustering, reclustering)


def sums_apart(scenario: Scenario) -> bool:
    """Return True if each reclustering sums an update of its own."""
    return works_of(scenario.clustering) > 1 or hides_groups(scenario.groups)


def steps_of(scenario: Scenario) -> int:
    """Return the largest magnitude of an encoded coordinate, exactly floor(range * 2^scale_bits)."""
    numerator, denominator = scenario.encoding.range.as_integer_ratio()
    return (numerator << scenario.encoding.scale_bits) // denominator


def batch_size_of(config: Training, samples: int) -> int:
    """Return the largest batch of a party with ``samples`` samples; a fraction is rounded, at least 1."""
    if config.batch_fraction is None:
        return config.batch_size
    return max(1, math.floor(config.batch_fraction * samples + 0.5))
