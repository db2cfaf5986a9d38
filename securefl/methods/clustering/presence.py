"""Presence: parties that a round needs, and odds that shared noise meets more colluders than it covers."""

from __future__ import annotations

from securefl.methods.clustering import odds
from securefl.methods.clustering.sizes import (
    MAX_DRAWS,
    cluster_sizes,
    max_cluster_size,
    most_fitting,
    participants_of,
    quorum_of,
    rests_on_chance,
)
from securefl.scenario import Scenario


def fewest_participants(scenario: Scenario) -> int:
    """Participants below which there is no round: one cluster, and the signatures of a certificate.

    The second keeps a server from showing a party a round in which nearly everybody else colludes.
    """
    size, sums = scenario.clustering.size, scenario.secure_sum
    return max(size, quorum_of(scenario.parties, sums.colluders)) if sums.server == "active" else size


def fewest_present(scenario: Scenario) -> int:
    """Parties that must have said hello to a round, whether or not they are drawn for it.

    Where shared noise rests on chance they are as many as for a certificate, whatever the server: the fewer
    honest parties there are, the more of a cluster collude.
    """
    fewest = fewest_participants(scenario)
    if not rests_on_chance(scenario):
        return fewest
    return max(fewest, quorum_of(scenario.parties, scenario.secure_sum.colluders))


def wanted_of(scenario: Scenario, present: int) -> int:
    """The number of participants in a round with random clusters; 0 when there can be none.

    It is the largest number, up to the planned one, whose clusters stay within :func:`max_cluster_size`:
    fewer parties make fewer and so larger clusters. The surplus sits the round out.
    """
    if present < fewest_present(scenario):
        return 0
    most, fewest = min(participants_of(scenario), present), fewest_participants(scenario)
    return most_fitting(most, fewest, scenario.clustering.size, max_cluster_size(scenario))


def shares_fail(scenario: Scenario, present: int) -> float:
    """P(more than f of a given party's cluster mates collude) in one opening; 0.0 without such noise.

    Args:
        scenario: a feasible one.
        present: how many said hello to the round, all q colluders among them.
    """
    sums, clustering = scenario.secure_sum, scenario.clustering
    if not rests_on_chance(scenario):
        return 0.0
    if clustering.fixed:
        present = taking_part = scenario.parties
    else:
        taking_part = wanted_of(scenario, present)
    if not taking_part:
        return 0.0
    mates = max(cluster_sizes(taking_part, clustering.size)) - 1
    return odds.tail(present - 1, sums.colluders, mates, sums.colluders_per_cluster + 1)


def shares_fail_in_run(scenario: Scenario, fewest: int | None = None) -> float:
    """P(:func:`shares_fail` in at least one opening of the run), for the worst numbers of present parties.

    Against an active server: in at least one of all draws that it can have. Fixed clusters are one draw.

    Args:
        scenario: a feasible one.
        fewest: parties that are there in every round; without, as few as a round may go on with.
    """
    once = max(
        shares_fail(scenario, present)
        for present in range(fewest or fewest_present(scenario), scenario.parties + 1)
    )
    if scenario.clustering.fixed:
        return once
    draws = MAX_DRAWS if scenario.secure_sum.server == "active" else 1
    return odds.once_in(once, draws * scenario.stop.rounds * scenario.clustering.reclusterings)
