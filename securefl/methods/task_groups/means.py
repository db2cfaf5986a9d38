"""Mean estimation with squared loss (Section 3; Section 5.3 for Poisson data)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64, expect
from securefl.base.errors import UsageError
from securefl.methods.task_groups.problem import Choice, Problem, spans


@dataclass(frozen=True, slots=True, eq=False)
class MeanLook:
    """Losses and gradients of k candidate means (a :class:`~securefl.methods.task_groups.problem.Look`)."""

    problem: Means
    models: F64

    @property
    def losses(self) -> F64:
        """|theta - mean_i|^2 + variance_i, f64 ``(m, k)``: the mean of |z - theta|^2 over the points."""
        apart = self.models[np.newaxis] - self.problem.centres[:, np.newaxis]
        found: F64 = np.einsum("mkd,mkd->mk", apart, apart)
        return found + self.problem.spread[:, np.newaxis]

    def gradients(self, choice: Choice) -> F64:
        """Return 2 (theta - mean_i), f64 ``(m, d)``."""
        found: F64 = 2.0 * (self.models[choice] - self.problem.centres)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Means:
    """Mean estimation with loss |z - theta|^2 on each of m machines.

    ``points`` are by machine, f64 ``(n_i, d)`` with n_i >= 1.

    Raises:
        UsageError: no machines, one without points or of another dimension, or values that are not finite.
    """

    points: tuple[F64, ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise UsageError("points must have at least 1 machine, found none")
        for machine, z in enumerate(self.points):
            expect(z, f"points of machine {machine}", np.float64, (None, self.points[0].shape[-1]))
            if not len(z) or not np.isfinite(z).all():
                raise UsageError(f"points of machine {machine} must be 1 or more, all finite; found {len(z)}")

    @property
    def machines(self) -> int:
        """Number of machines, m."""
        return len(self.points)

    @property
    def dimension(self) -> int:
        """Dimension, d."""
        return int(self.points[0].shape[1])

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Points by machine, n_i."""
        return np.array([len(z) for z in self.points], dtype=np.int64)

    @property
    def centres(self) -> F64:
        """Sample means, f64 ``(m, d)``."""
        return np.stack([z.mean(axis=0) for z in self.points])

    @property
    def spread(self) -> F64:
        """Mean squared distance of a machine's points from their mean, f64 ``(m,)``."""
        return np.array([z.var(axis=0).sum() for z in self.points])

    def look(self, models: F64) -> MeanLook:
        """Return losses and gradients at k models, f64 ``(k, d)``."""
        expect(models, "models", np.float64, (None, self.dimension))
        return MeanLook(self, models)

    def minimisers(self) -> F64:
        """Return the sample means; for Poisson data these are not sub-Gaussian (Section 5.3)."""
        return self.centres

    def only(self, rows: npt.NDArray[np.bool_]) -> Problem:
        """Return the problem of some of the machines."""
        return Means(tuple(z for z, wanted in zip(self.points, rows, strict=True) if wanted))

    def part(self, number: int, parts: int) -> Problem:
        """Return part ``number`` of ``parts`` of every machine's points."""
        first, end = spans(self.counts, number, parts)
        return Means(tuple(z[a:b] for z, a, b in zip(self.points, first, end, strict=True)))
