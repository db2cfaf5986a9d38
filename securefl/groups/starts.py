"""Where models start: near the truth, at random, or as found out without an oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from securefl.arrays import F64
from securefl.errors import UsageError
from securefl.groups.adversary import Adversary, Turn
from securefl.groups.descent import Settings, descend
from securefl.groups.generate import Drawn
from securefl.groups.kmeans import trimmed_kmeans
from securefl.groups.problem import Problem
from securefl.groups.rule import GroupRule

PLAIN_ITERATIONS = 100
STEPS = tuple(2.0**power for power in range(-6, 3))
"""Multiples of the split gradients that are tried."""


def near_truth(drawn: Drawn, share: float, rng: np.random.Generator) -> F64:
    """The truths, each moved by ``share`` of the separation in a random direction, f64 ``(k, d)``.

    The theory asks for less than half of it (Assumption 5.8); it needs an oracle.
    """
    away = rng.standard_normal(drawn.truth.shape)
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    distance = share * drawn.separation
    if not np.isfinite(distance):
        raise UsageError("a start near the truth takes two groups or more: one has no separation")
    moved: F64 = drawn.truth + distance * away
    return moved


def split(
    problem: Problem,
    groups: int,
    settings: Settings,
    rng: np.random.Generator,
    byzantine: npt.NDArray[np.bool_],
    adversary: Adversary | None,
    *,
    cluster: int = 1,
    trim: float = 0.1,
    plain_rule: GroupRule | None = None,
) -> F64:
    """A start without an oracle, f64 ``(k, d)``; nothing but sums over ``cluster`` machines is looked at.

    1. One model is learned by all, robustly, for :data:`PLAIN_ITERATIONS`: it rests between the groups.
    2. There everybody sends its gradient once. Means over random clusters of ``cluster`` machines are split:
       reduced to the k - 1 directions in which most of them differ (rows longer than the median are shortened
       to it first, so that no outlier is a direction), then trimmed k-means.
    3. A group's start lies a multiple of ``cluster`` times its centroid's deviation from the common model,
       downhill. Of :data:`STEPS` the multiple counts whose models leave the least *median* over machines of
       the least loss: one number by machine, which a few liars cannot move far. They report the losses on
       their own data. At 5 % of liars no report of theirs, not even one of 0 for a multiple and of infinity
       for all others, would have changed the multiple (d = 20 and 100, 6 draws each, sums of 1 and 3).

    Args:
        problem: m machines and their data.
        groups: k.
        settings: the rate of the plain phase; its rule is used unless ``plain_rule`` is given.
        rng: for clusters and seeds of k-means.
        byzantine: which machines lie.
        adversary: what these send.
        cluster: machines in a sum; with 1 the server sees single gradients.
        trim: share of rows that k-means leaves out.
        plain_rule: of the plain phase.
    """
    plain = replace(settings, iterations=PLAIN_ITERATIONS, rule=plain_rule or settings.rule, resample=False)
    common = descend(problem, np.zeros((1, problem.dimension)), plain, byzantine, adversary).models
    sent = _gradients(problem, common, byzantine, adversary)
    order = rng.permutation(problem.machines)[: problem.machines // cluster * cluster]
    rows = sent[order].reshape(-1, cluster, problem.dimension).mean(axis=1)
    rows = rows[np.isfinite(rows).all(axis=1)]
    away = rows - np.median(rows, axis=0)
    lengths = np.linalg.norm(away, axis=1)
    shortened = away * np.minimum(1.0, np.median(lengths) / np.maximum(lengths, 1e-300))[:, np.newaxis]
    directions = np.linalg.svd(shortened, full_matrices=False)[2][: max(1, groups - 1)]
    found = trimmed_kmeans(away @ directions.T, groups, trim, rng)
    deviations = cluster * (found.centroids @ directions)
    candidates = [common - step * deviations for step in STEPS]
    left = [float(np.median(problem.look(models).losses.min(axis=1))) for models in candidates]
    best: F64 = candidates[int(np.argmin(left))]
    return best


def _gradients(
    problem: Problem, common: F64, byzantine: npt.NDArray[np.bool_], adversary: Adversary | None
) -> F64:
    """What everybody sends at one common model, f64 ``(m, d)``."""
    own = problem.look(common).gradients(np.zeros(problem.machines, dtype=np.intp))
    if adversary is not None and byzantine.any():
        honest = own[~byzantine]
        turn = Turn(common, problem.only(byzantine), np.zeros(len(honest), dtype=np.intp), honest)
        own[byzantine] = adversary.send(turn)[1]
    return own
