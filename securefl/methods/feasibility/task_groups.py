"""Limits of task groups."""

import math

from securefl.base.errors import ConfigError
from securefl.base.sums import exact_sum
from securefl.methods import attacks, robust
from securefl.methods.clustering import cluster_sizes, group_sizes, hides_groups, tail
from securefl.scenario import CoalitionAttack, Groups, Scenario


def check_groups(scenario: Scenario) -> None:
    """Raise a ConfigError for task groups that contradict another field."""
    groups, clustering = scenario.groups, scenario.clustering
    if groups.count == 1:
        if groups != Groups():
            raise ConfigError(
                "groups.count", "is 1: there are no groups", "set 2 or more, or leave out [groups]"
            )
        return
    if groups.count > scenario.parties:
        raise ConfigError(
            "groups.count",
            f"is {groups.count}, more than the {scenario.parties} parties",
            f"set it to at most {scenario.parties}",
        )
    if groups.tasks == "rotations" and groups.count > 4:
        raise ConfigError(
            "groups.count", f"{groups.count} groups, but images have 4 rotations", "set at most 4"
        )
    if groups.sizes:
        _check_sizes(scenario)
    _check_pace(groups)
    if groups.choices != Groups().choices and groups.choice_epsilon is None:
        raise ConfigError(
            "groups.choices",
            "needs groups.choice_epsilon",
            "leave it out, or set groups.choice_epsilon",
        )
    _check_company(scenario)
    if clustering.reclusterings > 1:
        raise ConfigError(
            "clustering.reclusterings",
            f"{clustering.reclusterings} reclusterings cannot be combined with groups",
            "set it to 1",
        )
    if clustering.fixed:
        raise ConfigError(
            "clustering.fixed",
            "fixed clusters cannot be combined with groups",
            "leave it out; hidden groups use atoms, which stay the same",
        )
    if hides_groups(scenario.groups):
        _check_hidden(scenario)
    else:
        _check_open(scenario)


def _check_sizes(scenario: Scenario) -> None:
    groups, parties = scenario.groups, scenario.parties
    if groups.tasks != "rotations":
        raise ConfigError("groups.sizes", "needs groups of a known task", 'groups.tasks = "rotations"')
    if len(groups.sizes) != groups.count or exact_sum(groups.sizes) != parties:
        raise ConfigError(
            "groups.sizes",
            f"has {len(groups.sizes)} groups of {exact_sum(groups.sizes)} parties in all, but the scenario"
            f" has {groups.count} groups of {parties} parties",
            f"give {groups.count} numbers that add up to {parties}",
        )


def _check_pace(groups: Groups) -> None:
    """Reject a pace between splits if there are fewer than two splits."""
    if groups.pace == Groups().pace:
        return
    between = f"{groups.pace} rounds between partings"
    if groups.warmup == 0:
        raise ConfigError(
            "groups.pace",
            f"{between}, but groups.warmup = 0 has no such rounds",
            "leave it out, or set groups.warmup to 1 or more",
        )
    if groups.count == 2:
        raise ConfigError(
            "groups.pace", f"{between}, but 2 groups have one split only", "leave it out, or 3 groups or more"
        )


def _check_company(scenario: Scenario) -> None:
    """Reject settings that cannot be combined with any kind of groups."""
    if scenario.privacy.unit != "none" or scenario.training.dp_sgd is not None:
        raise ConfigError(
            "groups.count",
            "groups cannot be combined with privacy noise or DP-SGD",
            "leave out one of them",
        )
    if scenario.secure_sum.kind != "masking":
        raise ConfigError(
            "secure_sum.kind",
            f"{scenario.secure_sum.kind} sums cannot be combined with groups",
            'set it to "masking"',
        )
    for name in ("count", "fraction"):
        if getattr(scenario.participation, name) is not None:
            raise ConfigError(f"participation.{name}", "cannot be combined with groups", "leave it out")
    if robust.needs_server_gradient(scenario.aggregation.rule):
        raise ConfigError(
            "aggregation.rule",
            f"{scenario.aggregation.rule.name} needs samples at the server, which groups cannot use",
            "choose a rule without them, such as median or trimmed-mean",
        )
    for index, behaviour in enumerate(scenario.behaviours):
        if isinstance(behaviour, CoalitionAttack) or attacks.is_of_server(behaviour):
            raise ConfigError(
                f"behaviours.{index}.kind",
                f"{behaviour.kind} cannot be combined with groups",
                "choose an attack of single parties",
            )


def _check_open(scenario: Scenario) -> None:
    groups, clustering, sums = scenario.groups, scenario.clustering, scenario.secure_sum
    if sums.server == "active" and groups.choice_epsilon is None:
        raise ConfigError(
            "groups.choice_epsilon",
            "is missing: an active server could read a party's data from its choices of a model",
            'set an epsilon for each choice, as 2, or secure_sum.server = "curious"',
        )
    if sums.server == "active" and sums.colluders_per_cluster < sums.colluders:
        raise ConfigError(
            "secure_sum.colluders_per_cluster",
            f"is {sums.colluders_per_cluster}, but all q = {sums.colluders} colluders can join the cluster of"
            " one party",
            f"set it to {sums.colluders}",
        )
    needed = sums.colluders + sums.k_anonymity
    if sums.colluders and sums.min_survivors < needed and scenario.leakage.mode == "veto":
        raise ConfigError(
            "secure_sum.min_survivors",
            f"is {sums.min_survivors}, but all q = {sums.colluders} colluders can join the cluster of one"
            f" party: besides them k = {sums.k_anonymity} honest members must remain in each opened sum",
            f"set it to at least {needed}",
        )
    if clustering.atoms > 1:
        raise ConfigError(
            "clustering.atoms",
            "atoms cannot be combined with open groups",
            'leave it out, or groups.mode = "hidden"',
        )
    if sums.threshold <= sums.colluders and scenario.leakage.mode == "veto":
        raise ConfigError(
            "secure_sum.threshold",
            f"{sums.threshold} members can unmask a party, and all q = {sums.colluders} colluders can join"
            " its cluster",
            f"set it to at least {sums.colluders + 1}",
        )
    least = min(group_sizes(scenario))
    if least < clustering.size:
        raise ConfigError(
            "clustering.size",
            f"{scenario.parties} parties in {groups.count} groups leave {least} in the smallest group: "
            f"fewer than one cluster of {clustering.size}",
            f"set it to at most {least}",
        )
    clusters, needed = least // clustering.size, robust.clusters_needed_by(scenario.aggregation)
    if clusters < needed:
        raise ConfigError(
            "aggregation.rule",
            f"needs {needed} clusters, and a group of {least} makes {clusters} of {clustering.size}",
            "use smaller clusters, another rule, or more parties",
        )


def _check_hidden(scenario: Scenario) -> None:
    clustering = scenario.clustering
    if scenario.groups.choice_epsilon is not None:
        raise ConfigError(
            "groups.choice_epsilon",
            "hidden groups are never revealed",
            'leave it out, or groups.mode = "open"',
        )
    if scenario.secure_sum.server == "active":
        raise ConfigError(
            "groups.mode",
            "hidden groups need a curious server: parties cannot verify the group counts it sends",
            'set "open", or secure_sum.server = "curious"',
        )
    if clustering.atoms != clustering.size or clustering.size < 2:
        raise ConfigError(
            "clustering.atoms",
            "hidden groups need atoms of the size of a cluster: changing clusters would reveal groups",
            f"set it to {max(2, clustering.size)}, as clustering.size",
        )
    sums = scenario.secure_sum
    if sums.colluders_per_cluster + sums.k_anonymity < 2:
        # Rejected in experiments too: the ledger knows whole clusters, and would not see single updates.
        raise ConfigError(
            "secure_sum.k_anonymity",
            "1 reveals the update of a party that is alone in its group",
            "set it to at least 2",
        )
    if scenario.parties % clustering.size:
        raise ConfigError(
            "parties",
            f"{scenario.parties} parties cannot be split into clusters of exactly {clustering.size}, which "
            "hidden groups need",
            f"use a multiple of {clustering.size}",
        )
    if sums.threshold < clustering.size:
        raise ConfigError(
            "secure_sum.threshold",
            f"{sums.threshold} of {clustering.size} members could open a single update that a lying member"
            " isolates, without the member that notices (docs/adr/0026)",
            f"set it and min_survivors to {clustering.size}, as clustering.size",
        )
    if scenario.weighting.mode != "ignore":
        raise ConfigError(
            "weighting.mode",
            "weights cannot be combined with hidden groups",
            'set "ignore", or groups.mode = "open"',
        )


def unheard(scenario: Scenario) -> float:
    """Return the expected share of updates in [0, 1] that no slot of hidden groups opens.

    A member of a group of n among N parties needs f + k_anonymity - 1 of its m - 1 mates from the group
    (hypergeometric). At f + k_anonymity = 2 and k equal groups that is about (1 - 1 / k)^(m - 1).
    """
    sums, parties, mates = scenario.secure_sum, scenario.parties, scenario.clustering.size - 1
    needed = sums.colluders_per_cluster + sums.k_anonymity - 1
    return math.fsum(
        size / parties * (1 - tail(parties - 1, size - 1, mates, needed)) for size in group_sizes(scenario)
    )


def judged_together(scenario: Scenario, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of the clusters whose sums an aggregation rule gets together.

    These are all ``sizes``, or those of the smallest planned task group. A hidden group has the average
    number of clusters with f + k_anonymity of its members, rounded down. Byzantine parties choose
    their group, so one may have more of them than by chance.
    """
    if scenario.groups.count == 1:
        return sizes
    least = min(group_sizes(scenario))
    if not hides_groups(scenario.groups):
        return cluster_sizes(least, scenario.clustering.size)
    sums = scenario.secure_sum
    needed = sums.colluders_per_cluster + sums.k_anonymity
    opened = math.fsum(tail(scenario.parties, least, size, needed) for size in sizes)
    return sizes[: max(1, int(opened))]
