"""Adaptive clipping (ARC)."""

import numpy as np

from securefl import scenario
from securefl.base.errors import UsageError
from securefl.base.stack import ClusterMeans, Places
from securefl.methods.robust.distances import lengths
from securefl.methods.robust.pre_aggregation.norm_clipping import clip_rows


class AdaptiveClipping(scenario.PreAggregation, tag="arc", frozen=True, kw_only=True):
    """Clipping of the longest cluster means to the norm of the longest of the others (ARC).

    The floor(2 (f / c) (c - f)) longest rows, f = ``byzantine``, are clipped to the norm of the next one.

    Example:
        >>> AdaptiveClipping(byzantine=1)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]]).round(6)
        array([[ 1.      ,  2.      ],
               [ 2.      ,  3.      ],
               [ 3.      ,  4.      ],
               [ 4.472136, -2.236068]])
    """

    byzantine: scenario.NonNegative
    """f, rows with Byzantine members. Needs 2 f + 1 rows, withstands f."""

    def rows_needed(self, rows: int) -> int:
        return max(rows, 2 * self.byzantine + 1)

    def prepare(self, stack: ClusterMeans, seed: bytes) -> tuple[ClusterMeans, Places | None]:
        return clip_adaptively(stack, self.byzantine), None


def clip_adaptively(stack: ClusterMeans, byzantine: int) -> ClusterMeans:
    """Clip the k = floor(2 (f / c) (c - f)) longest rows, f = ``byzantine``, to the length of the next one.

    For f < c / 2 these are at least f rows, so no Byzantine row stays longer than the longest honest one.
    Without an attack most rows stay unchanged. Unlike a fixed radius, this one follows the lengths of the
    updates.

    Breakdown point: that of the rule.
    Cost: O(c d) time and memory.
    Source: Allouah et al. 2025, "Adaptive gradient clipping for robust federated learning" (arXiv
    2405.14432), algorithm 2.

    Raises:
        UsageError: ``byzantine`` is negative, or not 2 * byzantine < c.
    """
    clusters = stack.clusters
    if byzantine < 0 or clusters <= 2 * byzantine:
        raise UsageError(
            f"byzantine must be at least 0 and below half of the {clusters} clusters, found {byzantine}"
        )
    longest = 2 * byzantine * (clusters - byzantine) // clusters
    norms = lengths(stack.means)
    return clip_rows(stack, norms, float(np.sort(norms)[clusters - 1 - longest]))
