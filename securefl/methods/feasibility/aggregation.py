"""Limits of ``[aggregation]`` and ``[weighting]``."""

import math
from fractions import Fraction

from securefl.base.errors import ConfigError
from securefl.base.text import percent
from securefl.methods import clustering, robust
from securefl.scenario import Scenario, Weighting


def check_aggregation(scenario: Scenario, clusters: int) -> None:
    """Raise a ConfigError for a rule with too few clusters or too little tolerance, or without its data."""
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
            "use more participants, smaller clusters, or lower parameters of the rule",
        )
    if robust.needs_server_gradient(plan.rule) and not scenario.data.server_holds_some:
        raise ConfigError(
            "data.server_fraction",
            f"{tag} needs a gradient of the server's own data, and the server has none",
            "set it (as in 0.05) or data.server_per_class, or choose another rule",
        )
    if plan.byzantine > scenario.parties:
        raise ConfigError(
            "aggregation.byzantine",
            f"is {plan.byzantine}, more than the {scenario.parties} parties",
            "lower it",
        )
    if plan.claim != "worst-case":
        return
    if scenario.groups.count > 1:
        raise ConfigError(
            "aggregation.claim",
            "worst-case is impossible with groups: all Byzantine parties may join one group",
            'set claim = "average-case"',
        )
    tolerated = robust.withstood(plan, clusters)
    # Rules with the server's own data need no honest majority.
    if 2 * plan.byzantine >= clusters > tolerated:
        raise ConfigError(
            "aggregation.claim",
            f"{plan.byzantine} Byzantine parties can spoil {plan.byzantine} of {clusters} clusters,"
            f" and 2 x {plan.byzantine} >= {clusters} leaves no rule an honest majority in the worst case",
            'set claim = "average-case", fewer Byzantine parties, or more clusters',
        )
    if plan.byzantine > tolerated:
        raise ConfigError(
            "aggregation.claim",
            f"{plan.byzantine} Byzantine parties can spoil {plan.byzantine} of {clusters} clusters,"
            f" and {tag} with these parameters{' and pre_aggregation' if plan.pre_aggregation else ''}"
            f" withstands {tolerated}",
            'set claim = "average-case", another rule, or other parameters of the rule',
        )


def check_weighting(scenario: Scenario) -> None:
    """Raise a ConfigError for fields that do not fit the mode, and shares that no weights could keep."""
    weighting = scenario.weighting
    if weighting.mode == "truncate":
        _check_truncation(scenario)
        return
    for field, given in (("cap", weighting.cap), ("alpha", weighting.alpha)):
        if given is not None:
            raise ConfigError(
                f"weighting.{field}",
                f'mode = "{weighting.mode}" does not truncate, so this field has no effect',
                'leave it out, or set mode = "truncate"',
            )
    if weighting.use == "truncated":
        raise ConfigError(
            "weighting.use",
            f'mode = "{weighting.mode}" does not truncate, so this field has no effect',
            'set use = "all", or mode = "truncate"',
        )


def _check_truncation(scenario: Scenario) -> None:
    weighting = scenario.weighting
    if weighting.cap is None and weighting.alpha is None:
        raise ConfigError(
            "weighting.alpha",
            "is missing: truncate needs alpha, the share of dishonest parties, or cap",
            "set alpha = 0.1",
        )
    if weighting.cap is not None and weighting.alpha is not None:
        raise ConfigError(
            "weighting.cap", "alpha is given too, and determines the cap", "leave one of them out"
        )
    if weighting.use == "truncated" and scenario.training.dp_sgd is not None:
        raise ConfigError(
            "weighting.use", "DP-SGD draws its batches from all records of a party", 'set use = "all"'
        )
    if weighting.alpha is not None:
        _check_shares(scenario, weighting, weighting.alpha)


def _check_shares(scenario: Scenario, weighting: Weighting, alpha: float) -> None:
    alpha_star = weighting.alpha_star
    if not 0 < alpha < 1:
        raise ConfigError(
            "weighting.alpha", f"is {alpha:g}, which is not a share", "set a share of the parties, as in 0.1"
        )
    if not 0 < alpha_star < 1:
        raise ConfigError(
            "weighting.alpha_star",
            f"is {alpha_star:g}, but the share of the weight that the rule tolerates lies between 0 and 1",
            "set it to 0.5, for example",
        )
    if alpha >= alpha_star:
        raise ConfigError(
            "weighting.alpha",
            f"no cap keeps {percent(alpha)} of the parties to {percent(alpha_star)} of the weight:"
            " with equal weights they have as much",
            f"set it below alpha_star = {alpha_star:g}, the share of the weight that the rule tolerates",
        )
    # As decimal numbers: in floating point 0.1 * 30 is more than 3.
    low, high = Fraction(repr(alpha)), Fraction(repr(alpha_star))
    parties = scenario.parties
    liars = math.ceil(low * parties)
    if liars > high * parties:
        raise ConfigError(
            "weighting.alpha",
            f"no cap keeps {liars} of {parties} parties ({alpha:g}, rounded up) to {percent(alpha_star)} of"
            " the weight: with equal weights they have more",
            "set a lower alpha, a higher alpha_star (the weight that the rule tolerates), or more parties",
        )
