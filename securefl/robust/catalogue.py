"""All rules by their configuration."""

from __future__ import annotations

from typing import assert_never

from securefl.config.rules import breakdown, clusters_needed
from securefl.config.scenario import Krum, Mean, Median, Rule, TrimmedMean
from securefl.errors import UsageError
from securefl.robust.krum import krum
from securefl.robust.mean import weighted_mean
from securefl.robust.median import weighted_median
from securefl.robust.stack import Aggregate, Stack
from securefl.robust.trimmed_mean import trimmed_mean

__all__ = ["aggregate", "breakdown", "clusters_needed"]


def aggregate(rule: Rule, stack: Stack) -> Aggregate:
    """Apply ``rule`` to the cluster means.

    Raises:
        UsageError: fewer clusters than :func:`clusters_needed`; where clusters were lost to dropouts, the
            caller has to notice first.
    """
    needed = clusters_needed(rule)
    if stack.clusters < needed:
        raise UsageError(f"{rule} needs {needed} clusters, not {stack.clusters}")
    match rule:
        case Mean():
            return weighted_mean(stack)
        case Median():
            return weighted_median(stack)
        case TrimmedMean(trim=trim):
            return trimmed_mean(stack, trim)
        case Krum(byzantine=byzantine):
            return krum(stack, byzantine)
        case _:
            assert_never(rule)
