"""Norm clipping."""

from dataclasses import replace

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import ClusterMeans, Places
from securefl.methods.robust.distances import lengths


class NormClipping(scenario.PreAggregation, tag="norm-clipping", frozen=True, kw_only=True):
    """Clipping of cluster means to length ``radius``: x_i min(1, radius / ||x_i||).

    Example:
        >>> NormClipping(radius=5.0)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]]).round(6)
        array([[ 1.      ,  2.      ],
               [ 2.      ,  3.      ],
               [ 3.      ,  4.      ],
               [ 4.472136, -2.236068]])
    """

    radius: scenario.PositiveReal
    """Largest L2 norm, in the unit of the parameters."""

    def prepare(self, stack: ClusterMeans, seed: bytes) -> tuple[ClusterMeans, Places | None]:
        return clip_norms(stack, self.radius), None


def clip_norms(stack: ClusterMeans, radius: float) -> ClusterMeans:
    """Return ``x_i min(1, radius / ||x_i||)`` for all rows; ``noise_std`` stays as an upper bound.

    Breakdown point: that of the rule. Only the effect of a row is bounded.
    Cost: O(c d) time and memory (no memory if no row is clipped).
    Source: Sun et al. 2019, "Can you really backdoor federated learning?" (arXiv 1911.07963), section 4.

    Raises:
        UsageError: ``radius`` is not positive.
    """
    if not radius > 0:
        raise UsageError(f"radius of norm clipping must be positive, found {radius}")
    return clip_rows(stack, lengths(stack.means), radius)


def clip_rows(stack: ClusterMeans, norms: F64, radius: float) -> ClusterMeans:
    """Scale rows of ``norms`` above ``radius`` down to it."""
    longer = norms > radius
    if not longer.any():
        return stack
    means = stack.means.copy()
    for index in np.flatnonzero(longer).tolist():
        # A row whose length overflows float64 becomes zero.
        means[index] *= radius / norms[index]
    return replace(stack, means=means)
