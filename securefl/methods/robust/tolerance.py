"""Numbers of clusters that rules need and tolerate."""

import math

from securefl import scenario
from securefl.base.errors import ConfigError, RunAbortedError


def breakdown(rule: scenario.Rule, clusters: int) -> int:
    """Return the largest number of Byzantine clusters for which the rule's guarantee holds.

    The result then stays within bounds that only the honest clusters and the server's own data determine. It
    is 0 for fewer clusters than the rule needs. For the medians, centred clipping, votes on signs and
    trimming by weight it assumes equal weights; these rules tolerate less than half, or beta, of the weight.

    Raises:
        ConfigError: a custom rule returns no such number.
    """
    if clusters < rule.clusters_needed:
        return 0
    try:
        with rule.blame_part():
            most = rule.withstands(clusters)
    except RunAbortedError as error:
        raise ConfigError("aggregation.rule.type", str(error), "correct its method withstands") from error
    if rule.is_own and not (isinstance(most, int) and 0 <= most <= clusters):
        reason = f"{rule.name} returned {most!r} from withstands({clusters})"
        raise ConfigError("aggregation.rule.type", reason, "let withstands return a number of clusters")
    return most


def server_rule(rule: scenario.Rule) -> scenario.Rule | None:
    """Return the rule if it needs a gradient of the server's own data, else None."""
    return rule if needs_server_gradient(rule) else None


def needs_server_gradient(rule: scenario.Rule) -> bool:
    """Return True if the rule needs a gradient of the server's own data."""
    return rule.server_data != "none"


def places(gamma: float, clusters: int) -> int:
    """Return ceil(gamma c), at least 1: the rows in a share 0 < ``gamma`` <= 1 of ``clusters`` >= 1."""
    # An exact share must not gain a row by rounding: 0.07 * 100 is 7.000000000000001.
    return max(1, math.ceil(gamma * clusters - 1e-9))


def rounds_remembered(half_life: float) -> float:
    """Return the number of rounds whose plain sum separates two means as well as the decaying sum.

    The limit after many rounds. For independent scores with mean m and deviation s, a plain sum over w rounds
    has the ratio m sqrt(w) / s. The decaying sum approaches m / s sqrt((1 + lambda) / (1 - lambda)), lambda =
    2^(-1 / ``half_life``). So w = (1 + lambda) / (1 - lambda) = coth(ln 2 / (2 ``half_life``)), about 2.9
    half-lives. At least 1; infinite on overflow.
    """
    rate = math.log(2) / 2 / half_life
    return 1 / math.tanh(rate) if rate else math.inf


def clusters_needed_by(plan: scenario.Aggregation) -> int:
    """Return the smallest number of clusters for the rule with its pre-aggregation."""
    needed = plan.rule.clusters_needed
    for step in reversed(plan.pre_aggregation):
        needed = step.rows_needed(needed)
    return needed


def withstood(plan: scenario.Aggregation, clusters: int) -> int:
    """Return the largest number of Byzantine clusters that the rule with its pre-aggregation tolerates.

    Pre-aggregation can only lower the rule's number.
    """
    if clusters < clusters_needed_by(plan):
        return 0
    rows, most = clusters, clusters
    for step in plan.pre_aggregation:
        most = min(most, step.withstands(rows))
        rows = step.rows_left(rows)
    return min(most, breakdown(plan.rule, rows))
