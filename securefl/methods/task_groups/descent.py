"""Algorithm 1: estimate groups, aggregate gradients by group, step, project; again and again.

With :class:`~securefl.methods.robust.rules.mean.Mean` as its rule it is IFCA (Ghosh et al. 2020).
Source: Tao, Yang, Kulkarni 2023 (arXiv 2306.00638), Algorithm 1.

The baseline of Ghosh et al. 2019 (arXiv 1906.06629): minimisers, robust clustering, descent by group.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64, expect
from securefl.base.errors import UsageError
from securefl.methods import robust
from securefl.methods.task_groups import kmeans
from securefl.methods.task_groups.adversary import Adversary, Turn
from securefl.methods.task_groups.problem import Choice, Problem, least
from securefl.methods.task_groups.rule import GroupRule, TrimmedShare, combine

NOBODY = -1
"""In a choice: the machine sent nothing that could be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the descent."""

    rule: GroupRule
    """Any that goes without the server's own data; one with a memory begins anew in every iteration."""
    rate: float = 0.01
    """The step size gamma."""
    iterations: int = 300
    """T."""
    radius: float | None = None
    """Of the parameter ball round 0 that models are projected onto; None for no projection."""
    resample: bool = False
    """Whether iteration t estimates groups and takes gradients on fresh parts, 2 t and 2 t + 1 of 2 T."""
    weights: Literal["equal", "points"] = "equal"
    """Whether a machine weighs 1 or as many as its points in rules that know weights; the paper has 1."""

    def __post_init__(self) -> None:
        if not (self.rate > 0 and np.isfinite(self.rate)) or self.iterations < 0:
            raise UsageError("the learning rate is positive, and iterations are not negative")
        if not isinstance(self.rule, TrimmedShare) and robust.needs_server_gradient(self.rule):
            raise UsageError(f"{self.rule} needs the server's own data, which have no group")
        if self.radius is not None and not self.radius > 0:
            raise UsageError(f"a parameter ball has a positive radius, not {self.radius}")


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """The result of a descent."""

    models: F64
    """f64 ``(k, d)``."""
    choice: Choice
    """Each machine's group in the last iteration; :data:`NOBODY` for messages that were refused."""
    refused: int
    """Messages, over all iterations, that named no group or held no finite vector."""
    waited: int
    """(iteration, group) pairs in which a group had too few members for the rule and kept its model."""


def descend(
    problem: Problem,
    start: F64,
    settings: Settings,
    byzantine: npt.NDArray[np.bool_] | None = None,
    adversary: Adversary | None = None,
    pinned: Choice | None = None,
) -> Descent:
    """Run Algorithm 1.

    Args:
        problem: m machines and their data.
        start: theta_j^(0), f64 ``(k, d)``.
        settings: of the descent.
        byzantine: which machines lie, bool ``(m,)``; nobody unless given.
        adversary: what these send; as honest machines would unless given.
        pinned: by machine its group, where these are settled and not estimated (the last stage of
            Three-Stage); :data:`NOBODY` for machines that take no part.

    Raises:
        UsageError: shapes that do not fit; more models than machines; a loss of an honest machine that is not
            finite; too few points for re-sampling.
    """
    expect(start, "start", np.float64, (None, problem.dimension))
    if not np.isfinite(start).all():
        raise UsageError("a start must be finite")
    machines, groups = problem.machines, len(start)
    if not 1 <= groups <= machines:
        raise UsageError(f"{groups} groups for {machines} machines: there are at least as many machines")
    liars = np.zeros(machines, dtype=bool) if byzantine is None or adversary is None else byzantine
    if liars.shape != (machines,) or liars.all():
        raise UsageError("one flag by machine says who lies, and somebody does not")
    weights = np.ones(machines) if settings.weights == "equal" else problem.counts.astype(np.float64)
    models, refused, waited = start.copy(), 0, 0
    choice = np.full(machines, NOBODY, dtype=np.intp)
    whole = _Sides(problem, liars)
    for iteration in range(settings.iterations):
        sides, seen = whole, whole
        if settings.resample:
            parts = 2 * settings.iterations
            seen = _Sides(problem.part(2 * iteration, parts), liars)
            sides = _Sides(problem.part(2 * iteration + 1, parts), liars)
        choice, vectors = _messages(sides, seen, models, adversary, pinned)
        choice, bad = _screen_vectors(choice, vectors, groups, pinned)
        refused += bad
        for group in range(groups):
            members = choice == group
            step = combine(settings.rule, vectors[members], weights[members]) if members.any() else None
            if step is None:
                waited += 1
                continue
            models[group] = project(models[group] - settings.rate * step, settings.radius)
    return Descent(models, choice, refused, waited)


def project(model: F64, radius: float | None) -> F64:
    """The nearest point of the ball round 0 (the Euclidean projection of Algorithm 1)."""
    if radius is None:
        return model
    length = float(np.linalg.norm(model))
    return model if length <= radius else model * (radius / length)


class _Sides:
    """The machines of a problem, apart: honest ones and liars."""

    def __init__(self, problem: Problem, liars: npt.NDArray[np.bool_]) -> None:
        self.liars = liars
        self.honest = problem.only(~liars) if liars.any() else problem
        self.byzantine = problem.only(liars) if liars.any() else None


def _messages(
    sides: _Sides, seen: _Sides, models: F64, adversary: Adversary | None, pinned: Choice | None
) -> tuple[Choice, F64]:
    """Everybody's group and vector."""
    liars = sides.liars
    look = sides.honest.look(models)
    if pinned is not None:
        groups = pinned[~liars]
    else:
        groups = least((look if seen is sides else seen.honest.look(models)).losses)
    own = look.gradients(np.maximum(groups, 0))
    if sides.byzantine is None or adversary is None:
        return groups, own
    held = None if pinned is None else np.maximum(pinned[liars], 0)
    said, sent = adversary.send(Turn(models, sides.byzantine, groups, own, held))
    choice = np.empty(len(liars), dtype=np.intp)
    vectors = np.empty((len(liars), models.shape[1]))
    choice[~liars], choice[liars] = groups, said
    vectors[~liars], vectors[liars] = own, sent
    return choice, vectors


def _screen_vectors(choice: Choice, vectors: F64, groups: int, pinned: Choice | None) -> tuple[Choice, int]:
    """The groups of those whose message can be used, and how many others there are."""
    if pinned is not None:
        choice = np.where(pinned == NOBODY, NOBODY, choice)
    usable = np.isfinite(vectors).all(axis=1) & (choice < groups) & (choice >= 0)
    bad = ~usable & (choice != NOBODY)
    return np.where(usable, choice, NOBODY), int(bad.sum())


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
