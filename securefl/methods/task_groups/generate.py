"""Data of the paper's experiment (Section 6) and examples (Sections 3 and 5.3)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.methods.task_groups import regression
from securefl.methods.task_groups.means import Means
from securefl.methods.task_groups.problem import Choice, Problem

Kind = Literal["regression", "gaussian-mean", "poisson-mean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSetup:
    """Parameters from which a problem is drawn.

    Raises:
        UsageError: fewer honest machines than groups, or invalid numbers.
    """

    groups: int
    """k."""
    machines: int
    """m."""
    points: int = 100
    """Points n of every machine unless :attr:`fewest` is given."""
    dimension: int
    """d."""
    byzantine: float = 0.05
    """Share of Byzantine machines, rounded down."""
    noise: float = 0.2**0.5
    """Standard deviation of responses, or of points in each coordinate."""
    norm: float = 1.0
    """Norm r of every true parameter."""
    byzantine_norm: float = 3.0
    """The same for Byzantine machines' data."""
    fewest: int | None = None
    """Smallest n_i, which are then uniform from there to ``points``."""
    kind: Kind = "regression"

    def __post_init__(self) -> None:
        if self.groups < 1 or self.dimension < 1 or self.points < 1 or not 0 <= self.byzantine < 1:
            raise UsageError(
                "groups, dimension and points must be at least 1 and byzantine in [0, 1); found"
                f" {self.groups}, {self.dimension}, {self.points}, {self.byzantine}"
            )
        if not 1 <= (self.fewest or 1) <= self.points:
            raise UsageError(f"fewest must be from 1 to {self.points} (points), found {self.fewest}")
        if self.honest < self.groups:
            raise UsageError(
                f"groups must be at most {self.honest}, the number of honest machines; found {self.groups}"
            )

    @property
    def liars(self) -> int:
        """Number of Byzantine machines."""
        return int(self.byzantine * self.machines + 1e-9)

    @property
    def honest(self) -> int:
        """Number of honest machines."""
        return self.machines - self.liars


@dataclass(frozen=True, slots=True, eq=False)
class DrawnProblem:
    """One trial."""

    problem: Problem
    truth: F64
    """True parameters theta*_j, f64 ``(k, d)``."""
    labels: Choice
    """True group by machine; 0 for Byzantine ones."""
    byzantine: npt.NDArray[np.bool_]
    """True for Byzantine machines, the last ones."""

    @property
    def separation(self) -> float:
        """Delta: smallest distance between two true parameters; infinite for one group."""
        apart = np.linalg.norm(self.truth[:, np.newaxis] - self.truth[np.newaxis], axis=2)
        np.fill_diagonal(apart, np.inf)
        return float(apart.min())


def draw(setup: ProblemSetup, rng: np.random.Generator) -> DrawnProblem:
    """Draw one trial: truths, evenly filled groups, data.

    True parameters are coordinate-wise Bernoulli(1/2), rescaled to norm r; a draw with two equal ones, or
    without any 1, is repeated. For Poisson data they are the rates.
    """
    truth = _different(setup, rng)
    labels = np.zeros(setup.machines, dtype=np.intp)
    labels[: setup.honest] = np.arange(setup.honest) % setup.groups
    byzantine = np.arange(setup.machines) >= setup.honest
    outliers = [_bernoulli(setup.dimension, setup.byzantine_norm, rng) for _ in range(setup.liars)]
    parameters = np.concatenate([truth[labels[: setup.honest]], *(one[np.newaxis] for one in outliers)])
    counts = np.full(setup.machines, setup.points, dtype=np.int64)
    if setup.fewest is not None:
        counts = rng.integers(setup.fewest, setup.points, setup.machines, endpoint=True, dtype=np.int64)
    return DrawnProblem(_data(setup, parameters, counts, rng), truth, labels, byzantine)


def random_models(setup: ProblemSetup, rng: np.random.Generator) -> F64:
    """Return models drawn like the truths, f64 ``(k, d)``."""
    return _different(setup, rng)


def _data(
    setup: ProblemSetup, parameters: F64, counts: npt.NDArray[np.int64], rng: np.random.Generator
) -> Problem:
    if setup.kind == "regression":
        x = rng.standard_normal((setup.machines, setup.points, setup.dimension))
        noise = setup.noise * rng.standard_normal((setup.machines, setup.points))
        y = np.matmul(x, parameters[:, :, np.newaxis])[:, :, 0] + noise
        padding = np.arange(setup.points) >= counts[:, np.newaxis]
        x[padding], y[padding] = 0.0, 0.0
        whole = regression.Regressions(x, y, counts)
        return regression.Moments.of(whole) if setup.dimension <= setup.points else whole
    if setup.kind == "gaussian-mean":
        return Means(
            tuple(
                mean + setup.noise * rng.standard_normal((n, setup.dimension))
                for mean, n in zip(parameters, counts, strict=True)
            )
        )
    return Means(
        tuple(
            rng.poisson(rates, (n, setup.dimension)).astype(np.float64)
            for rates, n in zip(parameters, counts, strict=True)
        )
    )


def _bernoulli(dimension: int, norm: float, rng: np.random.Generator) -> F64:
    while True:
        drawn = rng.integers(0, 2, dimension).astype(np.float64)
        if drawn.any():
            found: F64 = drawn * (norm / np.linalg.norm(drawn))
            return found


def _different(setup: ProblemSetup, rng: np.random.Generator) -> F64:
    if setup.groups > 2**setup.dimension - 1:
        raise UsageError(
            f"groups must be at most 2^dimension - 1 for different parameters; found {setup.groups}"
            f" groups, dimension {setup.dimension}"
        )
    while True:
        found = np.stack([_bernoulli(setup.dimension, setup.norm, rng) for _ in range(setup.groups)])
        if len(np.unique(found, axis=0)) == setup.groups:
            return found
