"""Aggregation of the gradients of one group."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import ClusterMeans
from securefl.methods import robust


@dataclass(frozen=True, slots=True)
class TrimmedShare:
    """Option II: the coordinate-wise trimmed mean without the smallest and largest ``share`` of the members.

    At either end ceil(share c) members are trimmed: rounding down admits some Byzantine machines, which are
    spread unevenly (Section 6 at d = 20: .047 with floor, .041 with ceil).
    """

    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share < 0.5:
            raise UsageError(
                f"share, trimmed at each end, must be at least 0 and below 1/2, found {self.share}"
            )

    def of(self, members: int) -> robust.TrimmedMean | robust.Mean:
        """Return the rule for a group of ``members``."""
        # In floating point 0.07 * 100 is just above 7.
        trim = min(math.ceil(self.share * members - 1e-9), (members - 1) // 2)
        return robust.TrimmedMean(trim=trim) if trim else robust.Mean()


GroupRule = scenario.Rule | TrimmedShare


def combine(rule: GroupRule, vectors: F64, weights: npt.NDArray[np.float64]) -> F64 | None:
    """Return the aggregate of one group, f64 ``(d,)``; None if it has too few members for the rule.

    ``vectors`` are f64 ``(c, d)``, finite; ``weights`` f64 ``(c,)``, positive.
    """
    members = len(vectors)
    chosen = rule.of(members) if isinstance(rule, TrimmedShare) else rule
    if members < max(1, chosen.clusters_needed):
        return None
    stack = ClusterMeans(vectors, weights, np.ones(members, dtype=np.int64))
    return robust.aggregate(chosen, stack).vector
