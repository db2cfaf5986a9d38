"""Limits of verified rounds: who may see what they show, and what nobody but the server could repeat."""

from __future__ import annotations

from securefl.base.errors import ConfigError
from securefl.methods import clustering, robust
from securefl.scenario import Scenario


def check_verification(scenario: Scenario, clusters: int) -> None:
    """Refuse verified rounds that prove nothing, or show somebody more than it may know.

    Args:
        scenario: with feasible clusters.
        clusters: planned in each reclustering.

    Raises:
        ConfigError: with the field to change, the reason with its numbers, and the remedy.
    """
    sums = scenario.secure_sum
    if sums.committee is not None and sums.verification != "committee":
        raise ConfigError(
            "secure_sum.committee",
            f'is for verify = "committee", and verify is "{sums.verification}"',
            "leave it out, or secure_sum.verify = committee",
        )
    if sums.lost_clusters:
        _check_lost(scenario, clusters)
    if not sums.verified:
        return
    if sums.server != "active":
        raise ConfigError(
            "secure_sum.verify",
            "without certificates nothing is fixed that could be verified",
            "secure_sum.server = active, or secure_sum.verify = off",
        )
    if sums.kind == "plain":
        raise ConfigError(
            "secure_sum.verify", "plain sums prove nothing", "another secure_sum.kind, or verify = off"
        )
    if robust.needs_server_gradient(scenario.aggregation.rule):
        raise ConfigError(
            "secure_sum.verify",
            "nobody can repeat a rule that looks at the server's own data",
            "another aggregation.rule, or secure_sum.verify = off",
        )
    members, fewest = clustering.committee_size(scenario), clustering.fewest_present(scenario)
    if sums.committee is not None and members > fewest:
        raise ConfigError(
            "secure_sum.committee",
            f"{members} members, and a round may have {fewest} parties",
            f"at most {fewest}, or none for as few as are enough",
        )


def _check_lost(scenario: Scenario, clusters: int) -> None:
    """Refuse a step on fewer sums than its rule needs to withstand who may collude, or lie, in the others."""
    sums, plan = scenario.secure_sum, scenario.aggregation
    if not sums.verified:
        raise ConfigError(
            "secure_sum.lost_clusters",
            "is for verified rounds: elsewhere the server goes on with whatever opened",
            "leave it out, or secure_sum.server = active with secure_sum.verify",
        )
    if scenario.groups.count > 1:
        raise ConfigError(
            "secure_sum.lost_clusters",
            "a group may have as few clusters as are lost, and then the server chooses its model",
            "leave it out with task groups",
        )
    left = clusters - sums.lost_clusters
    liars = max(plan.byzantine, min(sums.colluders, max(left, 0)))
    if left < robust.clusters_needed_by(plan) or robust.withstood(plan, left) < liars:
        most = robust.withstood(plan, left) if left >= robust.clusters_needed_by(plan) else 0
        raise ConfigError(
            "secure_sum.lost_clusters",
            f"of {clusters} clusters {max(left, 0)} are left, of which {plan.rule.name} withstands {most};"
            f" {liars} may have Byzantine members or colluders",
            "lower it, more clusters, or a rule that withstands more",
        )
