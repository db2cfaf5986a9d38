"""Starting points of models: near the truth, or without an oracle."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.methods.task_groups import descent
from securefl.methods.task_groups.adversary import Adversary, Turn
from securefl.methods.task_groups.generate import DrawnProblem
from securefl.methods.task_groups.halving import spread
from securefl.methods.task_groups.kmeans import trimmed_kmeans
from securefl.methods.task_groups.problem import Choice, Problem, least
from securefl.methods.task_groups.rule import GroupRule

PLAIN_ITERATIONS = 100
STEPS = tuple(2.0**power for power in range(-6, 3))
"""Multiples of the split gradients that are tried."""


def near_truth(drawn: DrawnProblem, share: float, rng: np.random.Generator) -> F64:
    """Return the truths, each moved by ``share`` of the separation in a random direction, f64 ``(k, d)``.

    The theory requires a ``share`` below 1/2 (Assumption 5.8).
    """
    away = rng.standard_normal(drawn.truth.shape)
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    distance = share * drawn.separation
    if not np.isfinite(distance):
        raise UsageError(
            "cannot start near the truth: it needs 2 groups or more, since one group has no separation"
        )
    moved: F64 = drawn.truth + distance * away
    return moved


def split(
    problem: Problem,
    groups: int,
    settings: descent.Settings,
    rng: np.random.Generator,
    byzantine: npt.NDArray[np.bool_],
    adversary: Adversary | None,
    *,
    cluster: int = 1,
    trim: float = 0.1,
    plain_rule: GroupRule | None = None,
) -> F64:
    """Return a start without an oracle, f64 ``(k, d)``, from sums over ``cluster`` machines only.

    1. All machines learn one model, robustly, for :data:`PLAIN_ITERATIONS`: it rests between the groups.
    2. Every machine sends its gradient there once. Means over random clusters of ``cluster`` machines are
    reduced to the k - 1 directions in which most of them differ, and then split by trimmed k-means. Rows
    longer than the median are first shortened to it, so that outliers do not determine a direction.
    3. A group's start is the common model minus a multiple of ``cluster`` times its centroid's deviation. The
    multiple is the one of :data:`STEPS` with the smallest *median* over machines of the least loss, which a
    few false reports cannot move far. With 5 % of Byzantine machines no false report would have changed it (d
    = 20 and 100, 6 draws each, sums of 1 and 3).

    The rate and, without ``plain_rule``, the rule of the plain phase are those of ``settings``. ``trim`` is
    the share of rows that k-means excludes. ``adversary`` decides for the ``byzantine`` machines.
    """
    plain = replace(settings, iterations=PLAIN_ITERATIONS, rule=plain_rule or settings.rule, resample=False)
    common = descent.descend(problem, np.zeros((1, problem.dimension)), plain, byzantine, adversary).models
    _, sent = _messages(problem, common, byzantine, adversary)
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


def halves(
    problem: Problem,
    groups: int,
    settings: descent.Settings,
    rng: np.random.Generator,
    byzantine: npt.NDArray[np.bool_],
    adversary: Adversary | None,
    *,
    cluster: int,
) -> F64:
    """Return a start without an oracle, f64 ``(k, d)``, adding one model at a time as in runs (ADR 0028).

    Random clusters of ``cluster`` machines are drawn once. Between two splits Algorithm 1 runs with the rate
    and rule of ``settings``. Every :data:`PLAIN_ITERATIONS` all machines send their gradient at the model
    that they choose; means over at least two machines of one cluster and one model are used. The model whose
    means lie closest to one line is split along it, by the step of :data:`STEPS` with the smallest median of
    the least losses.

    Raises:
        UsageError: no model has two such means.
    """
    plain = replace(settings, iterations=PLAIN_ITERATIONS, resample=False)
    clusters = rng.permutation(problem.machines)[: problem.machines // cluster * cluster].reshape(-1, cluster)
    models = np.zeros((1, problem.dimension))
    while len(models) < groups:
        models = descent.descend(problem, models, plain, byzantine, adversary).models
        choice, sent = _messages(problem, models, byzantine, adversary)
        sent[~np.isfinite(sent).all(axis=1)] = 0.0
        spreads = {}
        for model in range(len(models)):
            slots = [row[choice[row] == model] for row in clusters]
            slots = [slot for slot in slots if len(slot) >= min(2, cluster)]
            if len(slots) >= 2:
                means = np.array([sent[slot].mean(axis=0) for slot in slots])
                spreads[model] = spread(means, np.array([len(slot) for slot in slots]))
        if not spreads:
            raise UsageError(
                f"cannot estimate the spread: no two sums of {cluster} machines are of one model; use"
                " smaller clusters or more machines"
            )
        source = max(spreads, key=lambda model: spreads[model].ratio)
        tilt = spreads[source].length * spreads[source].direction
        candidates = [_part_models(models, source, step * tilt) for step in STEPS]
        left = [float(np.median(problem.look(some).losses.min(axis=1))) for some in candidates]
        models = candidates[int(np.argmin(left))]
    return models


def _part_models(models: F64, source: int, tilt: F64) -> F64:
    further = np.concatenate([models, models[source : source + 1] - tilt])
    further[source] += tilt
    return further


def _messages(
    problem: Problem, models: F64, byzantine: npt.NDArray[np.bool_], adversary: Adversary | None
) -> tuple[Choice, F64]:
    """Return the model that every machine chooses, ``(m,)``, and its gradient there, f64 ``(m, d)``."""
    look = problem.look(models)
    choice = least(look.losses)
    own = look.gradients(choice)
    if adversary is not None and byzantine.any():
        honest = own[~byzantine]
        turn = Turn(models, problem.only(byzantine), choice[~byzantine], honest)
        choice[byzantine], own[byzantine] = adversary.send(turn)
    return choice, own
