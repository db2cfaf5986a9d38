"""Krum."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust import distances
from securefl.methods.robust.products import fold


class Krum(scenario.Rule, tag="krum", frozen=True, kw_only=True):
    """Cluster mean closest to its c - ``byzantine`` - 2 nearest ones.

    x_i with the smallest sum of ||x_i - x_j||^2 over these.

    Example:
        >>> Krum(byzantine=1)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]])
        array([1., 2.])
    """

    byzantine: scenario.NonNegative
    """f, clusters with Byzantine members. Needs f + 3 clusters; withstands f of 2 f + 3 or more."""

    @property
    def clusters_needed(self) -> int:
        return self.byzantine + 3

    def withstands(self, clusters: int) -> int:
        return self.byzantine if clusters >= 2 * self.byzantine + 3 else 0

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return krum(stack, self.byzantine)


def krum(stack: ClusterMeans, byzantine: int) -> AggregationResult:
    """Return the row with the smallest sum of squared distances to its c - ``byzantine`` - 2 nearest others.

    Weights have no effect. Ties, typical for c = byzantine + 3, go to the first row in lexicographic order.
    ``kept``: the chosen cluster only.

    Hazard: publishing the result publishes one cluster's opened sum.
    Breakdown point: ``byzantine`` rows if c >= 2 * byzantine + 3. The chosen row is then within sqrt(c -
    byzantine - 2) honest diameters of an honest one. Unboundedly large rows win from min(c - byzantine - 1,
    max(byzantine + 2, ceil(c / 2))) on. They fill each other's neighbourhoods, or honest ones contain as many
    of them as theirs contain honest rows.
    Cost: O(c^2 d) time; O(c^2) memory.
    Source: Blanchard et al. 2017, "Machine learning with adversaries: Byzantine tolerant gradient descent",
    section 4 and proposition 4.2.

    Raises:
        UsageError: ``byzantine`` is negative, or c < byzantine + 3.
    """
    if byzantine < 0 or stack.clusters < byzantine + 3:
        raise UsageError(
            f"Krum(byzantine={byzantine}) cannot aggregate {stack.clusters} clusters: byzantine >= 0"
            " and at least byzantine + 3 clusters are needed"
        )
    scores = krum_scores(distances.squared_distances(stack.means), stack.clusters - byzantine - 2)
    chosen = distances.in_row_order(stack, np.flatnonzero(scores == scores.min()).tolist())[0]
    kept = np.zeros(stack.clusters, dtype=np.bool_)
    kept[chosen] = True
    return AggregationResult(stack.means[chosen].copy(), kept)


def krum_scores(squared: F64, neighbours: int) -> F64:
    """Return, by row, the sum of its ``neighbours`` smallest squared distances to others, f64 ``(c,)``."""
    others = squared.copy()
    np.fill_diagonal(others, np.inf)
    others.sort(axis=1)
    return fold(others[:, :neighbours].T.copy()) if neighbours else np.zeros(len(squared))
