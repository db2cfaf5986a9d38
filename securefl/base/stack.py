"""Input and output of an aggregation rule (step 13)."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64, I64, expect
from securefl.base.errors import UsageError

Kept = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class ClusterMeans:
    """Input of a rule: means of one reclustering's opened sums, a row for each of c >= 1 clusters.

    A rule must not write to the arrays.

    Raises:
        UsageError: wrong dtypes or shapes, no cluster, a value that is not finite, a weight that is not
            positive, a cluster without survivors, or negative noise.

    >>> import numpy as np, securefl
    >>> means = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> stack = securefl.ClusterMeans(means, weights=np.ones(2), survivors=np.array([3, 3]))
    >>> stack.clusters, stack.dimension
    (2, 2)
    """

    means: F64
    """f64 ``(c, d)``, unit of the parameters."""
    weights: F64
    """f64 ``(c,)``, > 0: total weight of each cluster's survivors."""
    survivors: I64
    """i64 ``(c,)``, >= 1."""
    noise_std: float = 0.0
    """Standard deviation of the privacy noise in each coordinate of a mean, unit of the parameters."""
    reference: F64 | None = None
    """f64 ``(d,)``: previous aggregate, for rules with a memory; None before the first."""
    server_gradient: F64 | None = None
    """f64 ``(d,)``: gradient of the loss on the server's own data at the current model, for rules that need
    it. An honest mean has, on average, a negative inner product with it.
    """
    trust: F64 | None = None
    """f64 ``(c,)``: trust of each cluster's members so far, for
    :mod:`securefl.methods.robust.rules.inner_product`; None for this round alone.
    """

    def __post_init__(self) -> None:
        expect(self.means, "means", np.float64, (None, None))
        clusters = self.means.shape[0]
        if clusters < 1:
            raise UsageError("a stack must have at least 1 cluster, found 0")
        expect(self.weights, "weights", np.float64, (clusters,))
        expect(self.survivors, "survivors", np.int64, (clusters,))
        for index, row in enumerate(self.means):
            if not np.isfinite(row).all():
                raise UsageError(f"means must be finite: the mean of cluster row {index} has NaN or infinity")
        if not (np.isfinite(self.weights).all() and (self.weights > 0).all()):
            raise UsageError("weights must be finite and positive")
        if not (self.survivors >= 1).all():
            raise UsageError("survivors of a stack must be at least 1 in each cluster")
        if not (math.isfinite(self.noise_std) and self.noise_std >= 0):
            raise UsageError(f"noise_std must be finite and not negative, found {self.noise_std}")
        _check(self.reference, "reference", self.dimension)
        _check(self.server_gradient, "server_gradient", self.dimension)
        _check(self.trust, "trust", clusters)

    @property
    def clusters(self) -> int:
        """Number of rows, c."""
        return int(self.means.shape[0])

    @property
    def dimension(self) -> int:
        """Number of columns, d."""
        return int(self.means.shape[1])

    def need_server_gradient(self) -> F64:
        """Return the gradient of the server's own data, f64 ``(d,)``.

        Raises:
            UsageError: the stack has none (the loader refuses such a rule without server data).
        """
        if self.server_gradient is None:
            raise UsageError(
                "cannot apply this rule: the stack has no gradient of the server's own data; pass"
                " server_gradient"
            )
        return self.server_gradient


def _check(vector: F64 | None, name: str, length: int) -> None:
    if vector is not None:
        expect(vector, name, np.float64, (length,))
        if not np.isfinite(vector).all():
            raise UsageError(f"{name} must be finite: it has NaN or infinity")


@dataclass(frozen=True, slots=True, eq=False)
class AggregationResult:
    """Output of a rule.

    >>> import numpy as np, securefl
    >>> result = securefl.AggregationResult(np.zeros(3), kept=np.array([True, False]))
    >>> result.vector.shape, int(result.kept.sum())
    ((3,), 1)
    """

    vector: F64
    """f64 ``(d,)``, unit of the parameters."""
    kept: Kept
    """bool ``(c,)``, True for each cluster that the rule used; each rule's docstring defines "used"."""


def all_kept(stack: ClusterMeans) -> Kept:
    """Return the ``kept`` of a rule that uses all clusters."""
    return np.ones(stack.clusters, dtype=np.bool_)
