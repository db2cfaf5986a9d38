"""Numbers of parties that a round needs, and of present ones that take part."""

from securefl.methods.clustering import sizes
from securefl.scenario import Scenario


def fewest_participants(scenario: Scenario) -> int:
    """Return the smallest number of participants of a round: one cluster, and a certificate's signatures.

    The latter stop an active server from showing a party a round in which nearly all others collude.
    """
    size, sums = scenario.clustering.size, scenario.secure_sum
    return max(size, sizes.quorum_of(scenario.parties, sums.colluders)) if sums.server == "active" else size


def fewest_present(scenario: Scenario) -> int:
    """Return the number of parties that must send a hello for a round, whether or not they are drawn.

    If shared noise depends on chance, that is at least a certificate's number of signatures: with fewer
    honest parties, more of a cluster collude.
    """
    fewest = fewest_participants(scenario)
    if not sizes.rests_on_chance(scenario):
        return fewest
    return max(fewest, sizes.quorum_of(scenario.parties, scenario.secure_sum.colluders))


def wanted_of(scenario: Scenario, present: int) -> int:
    """Return the number of participants in a round with random clusters; 0 if there can be none.

    It is the largest, up to the planned one, whose clusters stay within :func:`max_cluster_size`.
    """
    if present < fewest_present(scenario):
        return 0
    most, fewest = min(sizes.participants_of(scenario), present), fewest_participants(scenario)
    return sizes.most_fitting(most, fewest, scenario.clustering.size, sizes.max_cluster_size(scenario))
