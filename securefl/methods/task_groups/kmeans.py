"""Trimmed k-means (Ghosh et al. 2019)."""

import math
from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import F64, expect
from securefl.base.errors import UsageError
from securefl.methods.task_groups.problem import Choice

RESTARTS = 20
ITERATIONS = 100


@dataclass(frozen=True, slots=True, eq=False)
class KMeansResult:
    """Best of several attempts."""

    centroids: F64
    """Centroids, f64 ``(k, d)``."""
    nearest: Choice
    """Nearest centroid by point, trimmed ones included, ``(m,)``."""
    cost: float
    """Sum of squared distances of the points that were not trimmed."""


def trimmed_kmeans(
    points: F64,
    groups: int,
    trim: float,
    rng: np.random.Generator,
    restarts: int = RESTARTS,
    iterations: int = ITERATIONS,
) -> KMeansResult:
    """Cluster m points into k groups without the ``trim`` share that lies farthest from its centroid.

    Every restart runs Lloyd's iterations from D^2 sampling (k-means++) that never draws the farthest ``trim``
    share, so that outliers do not become seeds. Of ``restarts`` attempts that of the smallest trimmed cost is
    returned. ``points`` are f64 ``(m, d)``, finite; 0 <= ``trim`` < 1.

    Raises:
        UsageError: more groups than m - floor(trim m).
    """
    expect(points, "points", np.float64, (None, None))
    kept = len(points) - math.floor(trim * len(points) + 1e-9)
    if not 1 <= groups <= kept:
        raise UsageError(
            f"groups must be from 1 to {kept}, the number of points that are not trimmed; found {groups}"
        )
    attempts = (
        _attempt(points, _seeds(points, groups, kept, rng), kept, iterations) for _ in range(restarts)
    )
    return min(attempts, key=lambda one: one.cost)


def distances(points: F64, centroids: F64) -> F64:
    """Return squared distances, f64 ``(m, k)``, at least 0."""
    apart = -2.0 * points @ centroids.T
    apart += (points**2).sum(axis=1)[:, np.newaxis]
    apart += (centroids**2).sum(axis=1)
    found: F64 = np.maximum(apart, 0.0)
    return found


def _seeds(points: F64, groups: int, kept: int, rng: np.random.Generator) -> F64:
    chosen = [int(rng.integers(len(points)))]
    near = distances(points, points[chosen])[:, 0]
    while len(chosen) < groups:
        odds = near.copy()
        odds[np.argsort(near, kind="stable")[kept:]] = 0.0
        total = odds.sum()
        if total <= 0:  # fewer different points than groups
            chosen.append(int(rng.integers(len(points))))
        else:
            chosen.append(int(rng.choice(len(points), p=odds / total)))
        near = np.minimum(near, distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen].copy()


def _attempt(points: F64, centroids: F64, kept: int, iterations: int) -> KMeansResult:
    before: Choice | None = None
    for _ in range(iterations):
        apart = distances(points, centroids)
        nearest = apart.argmin(axis=1)
        inside = np.argsort(apart[np.arange(len(points)), nearest], kind="stable")[:kept]
        counted = np.full(len(points), -1, dtype=np.intp)
        counted[inside] = nearest[inside]
        if before is not None and (counted == before).all():
            break
        before = counted
        for group in range(len(centroids)):
            members = counted == group
            if members.any():  # an empty group keeps its centroid
                centroids[group] = points[members].mean(axis=0)
    apart = distances(points, centroids)
    cost = float(np.sort(apart.min(axis=1))[:kept].sum())
    return KMeansResult(centroids, apart.argmin(axis=1), cost)
