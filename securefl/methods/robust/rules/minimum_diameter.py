"""Minimum-diameter averaging."""

from bisect import bisect_left
from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from securefl import scenario
from securefl.base import sums
from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust import distances, products

MAX_DIAMETER_BYZANTINE = 20
"""Largest number of outliers: the search grows like 1.47 to this power."""
Graph = list[int]
"""Neighbours of each vertex, as bits of an integer."""


class MinimumDiameter(scenario.Rule, tag="minimum-diameter", frozen=True, kw_only=True):
    """Mean of the c - ``byzantine`` cluster means with the smallest diameter max_ij ||x_i - x_j||; exact.

    Example:
        >>> MinimumDiameter(byzantine=1)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]])
        array([2., 3.])
    """

    byzantine: Annotated[int, Meta(ge=0, le=MAX_DIAMETER_BYZANTINE)]
    """f, clusters with Byzantine members. Needs 2 f + 1 clusters, withstands f."""

    @property
    def clusters_needed(self) -> int:
        return 2 * self.byzantine + 1

    def withstands(self, clusters: int) -> int:
        return self.byzantine

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return minimum_diameter(stack, self.byzantine)


def minimum_diameter(stack: ClusterMeans, byzantine: int) -> AggregationResult:
    """Return the weighted mean of the c - ``byzantine`` rows whose largest mutual distance is smallest.

    Weights do not affect the choice. Of several sets with one diameter the first in lexicographic order of
    the rows is taken. ``kept``: the chosen clusters.

    Breakdown point: ``byzantine`` rows, given c >= 2 * byzantine + 1: the chosen rows contain an honest one
    and lie within the honest diameter of it. With one more, a Byzantine row is chosen at any distance.
    Cost: one Gram matrix, one pass, and the search; O(c^2 + d) memory. A set of diameter at most D leaves out
    a vertex cover of the graph that joins rows farther apart than D. Bounded search for covers of at most
    ``byzantine`` rows grows like 1.47^byzantine.
    Source: El Mhamdi, Guerraoui, Rouault 2018 (arXiv 1802.07927), section 2.3 (there "Brute"); Rousseeuw
    1985. Search: Niedermeier 2006, "Invitation to fixed-parameter algorithms", section 8.

    Raises:
        UsageError: ``byzantine`` is negative or above ``MAX_DIAMETER_BYZANTINE``, where the search may take
            minutes; or not 2 * byzantine < c.
    """
    clusters = stack.clusters
    if not 0 <= byzantine <= MAX_DIAMETER_BYZANTINE or clusters <= 2 * byzantine:
        most = min(MAX_DIAMETER_BYZANTINE, (clusters - 1) // 2)
        raise UsageError(
            f"MinimumDiameter(byzantine={byzantine}) cannot aggregate {clusters} clusters: byzantine must be"
            f" from 0 to {most}"
        )
    kept = np.ones(clusters, dtype=np.bool_)
    if byzantine:
        order = np.array(distances.in_row_order(stack, range(clusters)))
        squared = distances.squared_distances(stack.means)[np.ix_(order, order)]
        kept[:] = False
        kept[order[_tightest(squared, clusters - byzantine)]] = True
    weights = np.where(kept, stack.weights, 0.0)
    return AggregationResult(products.combine(weights / products.total(weights), stack.means), kept)


def _tightest(squared: F64, size: int) -> list[int]:
    """Return the first set of ``size`` vertices, in lexicographic order, of the smallest diameter."""
    levels = np.unique(squared)
    spare = len(squared) - size
    # The last level always fits.
    least = bisect_left(levels[:-1], x=True, key=lambda level: _cover_fits(_graph(squared > level), spare))
    return _first_set(_graph(squared > levels[least]), size)


def _first_set(conflicts: Graph, size: int) -> list[int]:
    """Return the lexicographically first set of ``size`` vertices without conflicts."""
    graph, budget = list(conflicts), len(conflicts) - size
    chosen: list[int] = []
    gone = 0
    for vertex in range(len(conflicts)):
        if gone >> vertex & 1 or len(chosen) == size:
            continue
        rivals = graph[vertex]
        if not rivals:
            chosen.append(vertex)
            continue
        if rivals.bit_count() <= budget and _cover_fits(_without(graph, rivals), budget - rivals.bit_count()):
            chosen.append(vertex)
        else:
            rivals = 1 << vertex
        budget -= rivals.bit_count()
        gone |= rivals
        graph = _without(graph, rivals)
    return chosen


def _cover_fits(graph: Graph, budget: int) -> bool:
    """Return True if removing ``budget`` vertices can leave no edge."""
    while True:
        degrees = [neighbours.bit_count() for neighbours in graph]
        largest = max(degrees)
        if largest == 0:
            return True
        if sums.exact_sum(degrees) > 2 * budget * largest:
            return False
        vertex = degrees.index(largest)
        if 1 in degrees:
            # The neighbour of a leaf covers at least as many edges.
            graph, budget = _without(graph, graph[degrees.index(1)]), budget - 1
        elif largest == 2 or largest > budget:
            # Only cycles are left, where any vertex will do, or its neighbours exceed the budget.
            graph, budget = _without(graph, 1 << vertex), budget - 1
        elif _cover_fits(_without(graph, graph[vertex]), budget - largest):
            return True
        else:
            graph, budget = _without(graph, 1 << vertex), budget - 1


def _without(graph: Graph, removed: int) -> Graph:
    return [0 if removed >> v & 1 else neighbours & ~removed for v, neighbours in enumerate(graph)]


def _graph(edges: npt.NDArray[np.bool_]) -> Graph:
    return [sums.exact_sum(1 << other for other in np.flatnonzero(row).tolist()) for row in edges]
