"""Algorithm 1: estimate groups, aggregate gradients by group, step, project; repeat.

Source: Tao, Yang, Kulkarni 2023 (arXiv 2306.00638). With the rule
:class:`~securefl.methods.robust.rules.mean.Mean` it is IFCA (Ghosh et al. 2020). The baseline of Ghosh et al.
2019 (arXiv 1906.06629) is :func:`three_stage`.
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
"""Choice of a machine without a usable message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Parameters of :func:`descend`."""

    rule: GroupRule
    """Rule without the server's own data; a rule with a memory restarts in every iteration."""
    rate: float = 0.01
    """Gamma."""
    iterations: int = 300
    """T."""
    radius: float | None = None
    """Radius of the ball around 0 that models are projected onto; None for no projection."""
    resample: bool = False
    """True if iteration t chooses groups on part 2 t of 2 T, and takes gradients on part 2 t + 1."""
    weights: Literal["equal", "points"] = "equal"
    """Weight of a machine: 1, as in the paper, or its number of points."""

    def __post_init__(self) -> None:
        if not (self.rate > 0 and np.isfinite(self.rate)) or self.iterations < 0:
            raise UsageError(
                f"rate must be finite and positive and iterations at least 0; found {self.rate} and"
                f" {self.iterations}"
            )
        if not isinstance(self.rule, TrimmedShare) and robust.needs_server_gradient(self.rule):
            raise UsageError(
                f"rule must not need the server's own data, which have no group; found {self.rule}"
            )
        if self.radius is not None and not self.radius > 0:
            raise UsageError(f"radius of the parameter ball must be positive, found {self.radius}")


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """Result of a descent."""

    models: F64
    """Final models, f64 ``(k, d)``."""
    choice: Choice
    """Groups in the last iteration; :data:`NOBODY` for refused messages."""
    refused: int
    """Messages, over all iterations, without a group or a finite vector."""
    waited: int
    """Pairs (iteration, group) with too few members for the rule; the group kept its model."""


def descend(
    problem: Problem,
    start: F64,
    settings: Settings,
    byzantine: npt.NDArray[np.bool_] | None = None,
    adversary: Adversary | None = None,
    pinned: Choice | None = None,
) -> Descent:
    """Run Algorithm 1 from ``start``, theta_j^(0), f64 ``(k, d)``.

    ``byzantine``, bool ``(m,)``, is True for machines whose messages ``adversary`` decides; without it all
    behave honestly. The array ``pinned`` fixes the groups by machine (the last stage of Three-Stage);
    :data:`NOBODY` for machines that do not take part.

    Raises:
        UsageError: shapes that do not fit; more models than machines; a loss of an honest machine that is not
            finite; too few points for re-sampling.
    """
    expect(start, "start", np.float64, (None, problem.dimension))
    if not np.isfinite(start).all():
        raise UsageError("start must be finite: a coordinate is NaN or infinite")
    machines, groups = problem.machines, len(start)
    if not 1 <= groups <= machines:
        raise UsageError(
            f"start must have 1 to {machines} rows (groups), at most one per machine; found {groups}"
        )
    liars = np.zeros(machines, dtype=bool) if byzantine is None or adversary is None else byzantine
    if liars.shape != (machines,) or liars.all():
        raise UsageError(
            f"byzantine must have one flag for each of {machines} machines, at least one of them False"
        )
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
    """Return the nearest point of the ball around 0; ``model`` if ``radius`` is None."""
    if radius is None:
        return model
    length = float(np.linalg.norm(model))
    return model if length <= radius else model * (radius / length)


class _Sides:
    """Honest and Byzantine machines of a problem."""

    def __init__(self, problem: Problem, liars: npt.NDArray[np.bool_]) -> None:
        self.liars = liars
        self.honest = problem.only(~liars) if liars.any() else problem
        self.byzantine = problem.only(liars) if liars.any() else None


def _messages(
    sides: _Sides, seen: _Sides, models: F64, adversary: Adversary | None, pinned: Choice | None
) -> tuple[Choice, F64]:
    """Return the group and the vector of every machine."""
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
    messages, sent = adversary.send(Turn(models, sides.byzantine, groups, own, held))
    choice = np.empty(len(liars), dtype=np.intp)
    vectors = np.empty((len(liars), models.shape[1]))
    choice[~liars], choice[liars] = groups, messages
    vectors[~liars], vectors[liars] = own, sent
    return choice, vectors


def _screen_vectors(choice: Choice, vectors: F64, groups: int, pinned: Choice | None) -> tuple[Choice, int]:
    """Return groups, with :data:`NOBODY` for unusable messages, and the number of these."""
    if pinned is not None:
        choice = np.where(pinned == NOBODY, NOBODY, choice)
    usable = np.isfinite(vectors).all(axis=1) & (choice < groups) & (choice >= 0)
    bad = ~usable & (choice != NOBODY)
    return np.where(usable, choice, NOBODY), int(bad.sum())


@dataclass(frozen=True, slots=True, eq=False)
class ThreeStage:
    """Result of the three stages."""

    descent: Descent
    groups: Choice
    """Groups of the second stage, by machine."""
    centroids: F64
    """Start of the third stage, f64 ``(k, d)``."""


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
    """Cluster the machines' own minimisers once, then descend within the resulting groups.

    Every machine joins its nearest centroid, trimmed ones too. Byzantine machines send the minimiser of their
    own data; ``adversary`` decides for them in the third stage.

    With ``groups`` k, ``trim`` is the share of minimisers that k-means excludes. The ``oracle`` has true
    parameters, f64 ``(k, d)``, as centroids: the best case for k-means. The ``minimisers`` are those of the
    first stage, f64 ``(m, d)``, if already known.
    """
    minimisers = problem.minimisers() if minimisers is None else minimisers
    centroids = kmeans.trimmed_kmeans(minimisers, groups, trim, rng).centroids if oracle is None else oracle
    nearest = kmeans.distances(minimisers, centroids).argmin(axis=1)
    descent = descend(problem, centroids, settings, byzantine, adversary, pinned=nearest)
    return ThreeStage(descent, nearest, centroids)
