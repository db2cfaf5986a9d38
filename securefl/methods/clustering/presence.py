"""Presence: parties that a round needs, and how many of those who are there take part."""

from securefl.methods.clustering import sizes
from securefl.scenario import Scenario


def fewest_participants(scenario: Scenario) -> int:
    """Participants below which there is no round: one cluster, and the signatures of a certificate.

    The second keeps a server from showing a party a round in which nearly everybody else colludes.
    """
    size, sums = scenario.clustering.size, scenario.secure_sum
    return max(size, sizes.quorum_of(scenario.parties, sums.colluders)) if sums.server == "active" else size


def fewest_present(scenario: Scenario) -> int:
    """Parties that must have said hello to a round, whether or not they are drawn for it.

    Where shared noise rests on chance they are as many as for a certificate, whatever the server: the fewer
    honest parties there are, the more of a cluster collude.
    """
    fewest = fewest_participants(scenario)
    if not sizes.rests_on_chance(scenario):
        return fewest
    return max(fewest, sizes.quorum_of(scenario.parties, scenario.secure_sum.colluders))


def wanted_of(scenario: Scenario, present: int) -> int:
    """The number of participants in a round with random clusters; 0 when there can be none.

    It is the largest number, up to the planned one, whose clusters stay within :func:`max_cluster_size`:
    fewer parties make fewer and so larger clusters. The surplus sits the round out.
    """
    if present < fewest_present(scenario):
        return 0
    most, fewest = min(sizes.participants_of(scenario), present), fewest_participants(scenario)
    return sizes.most_fitting(most, fewest, scenario.clustering.size, sizes.max_cluster_size(scenario))
