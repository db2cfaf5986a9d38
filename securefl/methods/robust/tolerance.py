"""Tolerance of rules: the clusters that each needs and the Byzantine ones that it withstands. No arrays.

The rules themselves are in :mod:`securefl.methods.robust`, which states the source of each number.
"""

import math

from securefl import scenario
from securefl.base.errors import ConfigError, RunAbortedError


def breakdown(rule: scenario.Rule, clusters: int) -> int:
    """Most Byzantine clusters, out of ``clusters``, for which the rule's guarantee holds.

    Up to this number the result stays within bounds that the honest clusters and the server's own data alone
    determine, whatever the others say. Fewer clusters than the rule needs tolerate none. The numbers of the
    medians, of centred clipping, of votes on signs and of trimming by weight are for equal cluster weights;
    in general they tolerate every set of clusters with less than half, or with beta, of the total weight.

    Raises:
        ConfigError: a rule of one's own says no such number.
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
    """The rule itself if it cannot do without a gradient of data that the server holds."""
    return rule if needs_server_gradient(rule) else None


def needs_server_gradient(rule: scenario.Rule) -> bool:
    """Whether the rule cannot do without a gradient of data that the server holds itself."""
    return rule.server_data != "none"


def places(gamma: float, clusters: int) -> int:
    """ceil(gamma c): how many of ``clusters`` >= 1 rows a share of 0 < ``gamma`` <= 1 is, at least one."""
    # 0.07 * 100 is 7.000000000000001: an exact share must not gain a row by rounding.
    return max(1, math.ceil(gamma * clusters - 1e-9))


def rounds_remembered(half_life: float) -> float:
    """The number of rounds whose plain sum tells two means apart as well as the fading sum, after long.

    Of independent scores with mean m and deviation s a plain sum over w rounds has the ratio m sqrt(w) / s;
    the fading one goes to m / s sqrt((1 + lambda) / (1 - lambda)), lambda = 2^(-1 / ``half_life``), so that
    w = (1 + lambda) / (1 - lambda) = coth(ln 2 / (2 ``half_life``)), about 2.9 half-lives. At least 1;
    infinite where that is beyond the range of numbers.
    """
    rate = math.log(2) / 2 / half_life
    return 1 / math.tanh(rate) if rate else math.inf


def clusters_needed_by(plan: scenario.Aggregation) -> int:
    """Fewest clusters for the rule together with what stands in front of it."""
    needed = plan.rule.clusters_needed
    for step in reversed(plan.pre_aggregation):
        needed = step.rows_needed(needed)
    return needed


def withstood(plan: scenario.Aggregation, clusters: int) -> int:
    """Most Byzantine clusters that the rule withstands together with what stands in front of it.

    Pre-aggregation is never credited with more than the rule has: it can only lower the number. A Byzantine
    cluster spoils one bucket, and nearest-neighbour mixing keeps honest rows honest up to its own number.
    """
    if clusters < clusters_needed_by(plan):
        return 0
    rows, most = clusters, clusters
    for step in plan.pre_aggregation:
        most = min(most, step.withstands(rows))
        rows = step.rows_left(rows)
    return min(most, breakdown(plan.rule, rows))
