"""The baseline of Ghosh et al. 2019 (arXiv 1906.06629): minimisers, robust clustering, descent by group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.methods.task_groups import kmeans
from securefl.methods.task_groups.adversary import Adversary
from securefl.methods.task_groups.descent import Descent, Settings, descend
from securefl.methods.task_groups.problem import Choice, Problem


@dataclass(frozen=True, slots=True, eq=False)
class ThreeStage:
    """The result of the three stages."""

    descent: Descent
    """The third stage."""
    groups: Choice
    """Of the second stage, by machine; the third does not change them."""
    centroids: F64
    """f64 ``(k, d)``, where the third stage starts."""


def three_stage(
    problem: Problem,
    groups: int,
    trim: float,
    settings: Settings,
    rng: np.random.Generator,
    byzantine: npt.NDArray[np.bool_] | None = None,
    adversary: Adversary | None = None,
    oracle: F64 | None = None,
    minimisers: F64 | None = None,
) -> ThreeStage:
    """Cluster the machines' own minimisers once, then descend within the groups that came of it.

    Every machine goes to its nearest centroid, trimmed ones too: which of them lies is not known, and the
    rule of the third stage is there for that. Byzantine machines send the minimiser of their own data.

    Args:
        problem: m machines and their data.
        groups: k.
        trim: share of minimisers that k-means leaves out.
        settings: of the third stage.
        rng: for the seeds of k-means.
        byzantine: which machines lie.
        adversary: what these send in the third stage.
        oracle: true parameters, f64 ``(k, d)``, to take as centroids: what no k-means can improve on.
        minimisers: of the first stage, f64 ``(m, d)``, where they are known already.
    """
    minimisers = problem.minimisers() if minimisers is None else minimisers
    centroids = kmeans.trimmed_kmeans(minimisers, groups, trim, rng).centroids if oracle is None else oracle
    nearest = kmeans.distances(minimisers, centroids).argmin(axis=1)
    descent = descend(problem, centroids, settings, byzantine, adversary, pinned=nearest)
    return ThreeStage(descent, nearest, centroids)
