"""Limits of ``[aggregation]``: clusters that a rule needs, and what it is claimed to withstand."""

from __future__ import annotations

from securefl.base.errors import ConfigError
from securefl.methods import clustering, robust
from securefl.scenario import Scenario


def check_aggregation(scenario: Scenario, clusters: int) -> None:
    """Refuse a rule that has too few clusters, lacks what it looks at, or withstands less than is claimed.

    Args:
        scenario: with feasible clusters.
        clusters: planned in each reclustering.

    Raises:
        ConfigError: with the field, the reason and the remedy.
    """
    plan = scenario.aggregation
    tag = plan.rule.name
    plan.rule.check("aggregation.rule")
    needed = robust.clusters_needed_by(plan)
    if clusters < needed:
        raise ConfigError(
            "aggregation.rule",
            f"{tag} with these parameters{' and pre_aggregation' if plan.pre_aggregation else ''} needs"
            f" {needed} clusters, but {clustering.participants_of(scenario)} participants in clusters of"
            f" {scenario.clustering.size} make {clusters}",
            "more participants, smaller clusters, or lower parameters of the rule",
        )
    if robust.needs_server_gradient(plan.rule) and not scenario.data.server_holds_some:
        raise ConfigError(
            "data.server_fraction",
            f"{tag} needs a gradient of the server's own data, and the server has none",
            "the share of the training samples that it gets, as in 0.05; data.server_per_class; another rule",
        )
    if plan.byzantine > scenario.parties:
        raise ConfigError(
            "aggregation.byzantine", f"{plan.byzantine} of {scenario.parties} parties", "lower it"
        )
    if plan.claim != "worst-case":
        return
    if scenario.groups.count > 1:
        raise ConfigError(
            "aggregation.claim",
            "the rule looks at each group's sums by themselves, and all Byzantine parties may join one group",
            'claim = "average-case"',
        )
    tolerated = robust.withstood(plan, clusters)
    # Rules that go by the server's own data need no honest majority.
    if 2 * plan.byzantine >= clusters > tolerated:
        raise ConfigError(
            "aggregation.claim",
            f"{plan.byzantine} Byzantine parties can spoil {plan.byzantine} of {clusters} clusters,"
            f" and 2 x {plan.byzantine} >= {clusters} leaves no rule an honest majority in the worst case",
            'claim = "average-case", fewer Byzantine parties, or more clusters',
        )
    if plan.byzantine > tolerated:
        raise ConfigError(
            "aggregation.claim",
            f"{plan.byzantine} Byzantine parties can spoil {plan.byzantine} of {clusters} clusters,"
            f" and {tag} with these parameters{' and pre_aggregation' if plan.pre_aggregation else ''}"
            f" withstands {tolerated}",
            'claim = "average-case", another rule, or other parameters of the rule',
        )
