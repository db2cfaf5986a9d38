"""How many clusters a rule needs and how many Byzantine ones it tolerates: arithmetic without arrays.

The rules themselves are in :mod:`securefl.robust`, which states the source of each number.
"""

from __future__ import annotations

from typing import assert_never

from securefl.config.scenario import Krum, Mean, Median, Rule, TrimmedMean


def clusters_needed(rule: Rule) -> int:
    """Fewest clusters that the rule is defined for."""
    match rule:
        case Mean() | Median():
            return 1
        case TrimmedMean(trim=trim):
            return 2 * trim + 1
        case Krum(byzantine=byzantine):
            return byzantine + 3
        case _:
            assert_never(rule)


def breakdown(rule: Rule, clusters: int) -> int:
    """Most Byzantine clusters, out of ``clusters``, for which the rule's guarantee holds.

    Up to this number the result stays within bounds that the honest clusters alone determine, whatever the
    others say. Fewer clusters than the rule needs tolerate none. The median's number is for equal cluster
    weights; in general it tolerates every set of clusters with less than half of the total weight.
    """
    if clusters < clusters_needed(rule):
        return 0
    match rule:
        case Mean():
            return 0
        case Median():
            return (clusters - 1) // 2
        case TrimmedMean(trim=trim):
            return trim
        case Krum(byzantine=byzantine):
            return byzantine if clusters >= 2 * byzantine + 3 else 0
        case _:
            assert_never(rule)
