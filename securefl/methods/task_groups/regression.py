"""Linear regression with squared loss on every machine (Sections 3 and 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64, expect
from securefl.base.errors import UsageError
from securefl.methods.task_groups.problem import Choice, Problem, spans


@dataclass(frozen=True, slots=True, eq=False)
class RegressionLook:
    """Residuals of k models (a :class:`~securefl.methods.task_groups.problem.Look`)."""

    problem: Regressions
    residuals: F64
    """x theta - y, f64 ``(m, n, k)``; 0 at padding."""

    @property
    def losses(self) -> F64:
        """Mean squared residuals, f64 ``(m, k)``."""
        found: F64 = np.einsum("mnk,mnk->mk", self.residuals, self.residuals)
        return found / self.problem.counts[:, np.newaxis]

    def gradients(self, choice: Choice) -> F64:
        """Return 2 X' (X theta - y) / n_i, f64 ``(m, d)``."""
        chosen = np.take_along_axis(self.residuals, choice[:, np.newaxis, np.newaxis], axis=2)
        found: F64 = np.matmul(chosen.transpose(0, 2, 1), self.problem.x)[:, 0, :]
        return found * (2.0 / self.problem.counts[:, np.newaxis])


@dataclass(frozen=True, slots=True, eq=False)
class Regressions:
    """Linear regression with loss (y - <x, theta>)^2 on each of m machines.

    Rows of zeros pad machines with fewer points.

    Raises:
        UsageError: other dtypes or shapes, a value that is not finite, a machine without points, or padding
            that is not zero.
    """

    x: F64
    """Features, f64 ``(m, n, d)``."""
    y: F64
    """Responses, f64 ``(m, n)``."""
    counts: npt.NDArray[np.int64]
    """Points by machine, n_i, i64 ``(m,)``, 1 to n."""

    def __post_init__(self) -> None:
        expect(self.x, "x", np.float64, (None, None, None))
        machines, points, _ = self.x.shape
        expect(self.y, "y", np.float64, (machines, points))
        expect(self.counts, "counts", np.int64, (machines,))
        if not machines or self.counts.min() < 1 or self.counts.max() > points:
            raise UsageError(f"counts must be from 1 to {points} (points) for each of 1 or more machines")
        if not (np.isfinite(self.x).all() and np.isfinite(self.y).all()):
            raise UsageError("x and y, features and responses, must be finite")
        if self.counts.min() < points:
            padding = np.arange(points) >= self.counts[:, np.newaxis]
            if self.x[padding].any() or self.y[padding].any():
                raise UsageError("rows of x and y beyond a machine's count of points must be zero")

    @property
    def machines(self) -> int:
        """Number of machines, m."""
        return int(self.x.shape[0])

    @property
    def dimension(self) -> int:
        """Dimension, d."""
        return int(self.x.shape[2])

    def look(self, models: F64) -> RegressionLook:
        """Evaluate k models, f64 ``(k, d)``."""
        expect(models, "models", np.float64, (None, self.dimension))
        machines, points, dimension = self.x.shape
        residuals: F64 = (self.x.reshape(-1, dimension) @ models.T).reshape(machines, points, -1)
        residuals -= self.y[:, :, np.newaxis]
        return RegressionLook(self, residuals)

    def minimisers(self) -> F64:
        """Return the least-squares solutions, those of least norm if n_i < d, f64 ``(m, d)``.

        For n_i near d they are far from the truth: the expected squared error is sigma^2 d / (n_i - d - 1).
        """
        return np.stack([np.linalg.lstsq(x, y, rcond=None)[0] for x, y in zip(self.x, self.y, strict=True)])

    def only(self, rows: npt.NDArray[np.bool_]) -> Problem:
        """Return the problem of some of the machines."""
        return Regressions(self.x[rows], self.y[rows], self.counts[rows])

    def part(self, number: int, parts: int) -> Problem:
        """Return part ``number`` of ``parts`` of every machine's points."""
        first, end = spans(self.counts, number, parts)
        longest = int((end - first).max())
        x = np.zeros((self.machines, longest, self.dimension))
        y = np.zeros((self.machines, longest))
        for machine, (start, stop) in enumerate(zip(first, end, strict=True)):
            x[machine, : stop - start] = self.x[machine, start:stop]
            y[machine, : stop - start] = self.y[machine, start:stop]
        return Regressions(x, y, (end - first).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class MomentLook:
    """Second moments at k models (a :class:`~securefl.methods.task_groups.problem.Look`)."""

    problem: Moments
    models: F64
    turned: F64
    """G_i theta_j, f64 ``(m, k, d)``."""

    @property
    def losses(self) -> F64:
        """Losses theta' G theta - 2 theta' b + c, f64 ``(m, k)``; not below 0 by rounding."""
        found: F64 = np.einsum("mkd,kd->mk", self.turned, self.models)
        found -= 2.0 * self.problem.products @ self.models.T
        found += self.problem.energies[:, np.newaxis]
        return np.maximum(found, 0.0)

    def gradients(self, choice: Choice) -> F64:
        """Return 2 (G theta - b), f64 ``(m, d)``."""
        found: F64 = 2.0 * (self.turned[np.arange(len(choice)), choice] - self.problem.products)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Linear regression by second moments: faster if there are more points than dimensions."""

    whole: Regressions
    grams: F64
    """X' X / n_i, f64 ``(m, d, d)``."""
    products: F64
    """X' y / n_i, f64 ``(m, d)``."""
    energies: F64
    """y' y / n_i, f64 ``(m,)``."""

    @classmethod
    def of(cls, whole: Regressions) -> Moments:
        """Compute the moments once."""
        n = whole.counts.astype(np.float64)
        grams = np.matmul(whole.x.transpose(0, 2, 1), whole.x) / n[:, np.newaxis, np.newaxis]
        products = np.matmul(whole.y[:, np.newaxis], whole.x)[:, 0] / n[:, np.newaxis]
        return cls(whole, grams, products, (whole.y**2).sum(axis=1) / n)

    @property
    def machines(self) -> int:
        """Number of machines, m."""
        return self.whole.machines

    @property
    def dimension(self) -> int:
        """Dimension, d."""
        return self.whole.dimension

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Points by machine, n_i."""
        return self.whole.counts

    def look(self, models: F64) -> MomentLook:
        """Evaluate k models, f64 ``(k, d)``: one pass over all G_i."""
        expect(models, "models", np.float64, (None, self.dimension))
        # (theta G)_i is G_i theta, as each G is symmetric.
        turned: F64 = np.matmul(models[np.newaxis], self.grams)
        return MomentLook(self, models, turned)

    def minimisers(self) -> F64:
        """Return the minimisers; see :meth:`Regressions.minimisers`."""
        return self.whole.minimisers()

    def only(self, rows: npt.NDArray[np.bool_]) -> Problem:
        """Return the problem of some of the machines."""
        return Moments(
            Regressions(self.whole.x[rows], self.whole.y[rows], self.whole.counts[rows]),
            self.grams[rows],
            self.products[rows],
            self.energies[rows],
        )

    def part(self, number: int, parts: int) -> Problem:
        """Return part ``number`` of ``parts`` of every machine's points."""
        return self.whole.part(number, parts)
