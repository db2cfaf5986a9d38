"""Label inference: class shares of samples, estimated from changes of the last layer's bias.

By the gradient of cross-entropy, the bias of class c moves with its share in the data minus the share that
the model predicts (Wainakh et al. 2022, "User-level label leakage from gradients in federated learning",
arXiv 2105.09369). A cluster's mean moves with the mean share. Shadow parties with known shares show the
effect of a local training.
"""

from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import F64
from securefl.base.errors import UsageError

_RIDGE = 1e-3
"""Ridge relative to the mean variance of bias changes, for correlated ones."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelModel:
    """Affine map from bias changes to shares; made by :func:`learn`."""

    factors: F64
    """f64 ``(classes, classes)``."""
    change: F64
    """Mean change of shadow parties, f64 ``(classes,)``."""
    shares: F64
    """Their mean shares, f64 ``(classes,)``."""

    def estimate(self, changes: F64) -> F64:
        """Return class shares by bias changes of the same shape: f64 ``(n, classes)``, >= 0, row sums 1."""
        raw = self.shares + (changes - self.change) @ self.factors
        return np.stack([on_simplex(row) for row in raw])


def learn(changes: F64, shares: F64) -> LabelModel:
    """Fit a label model by least squares with a small ridge.

    Args:
        changes: of the biases of shadow parties, f64 ``(k, classes)``, k >= 2.
        shares: class shares of their data, f64 ``(k, classes)``.

    Raises:
        UsageError: other shapes, or fewer than two shadow parties.
    """
    if changes.shape != shares.shape or changes.ndim != 2 or len(changes) < 2:
        raise UsageError(
            "changes and shares must have one shape, 2 or more shadow parties by classes; found"
            f" {changes.shape}, {shares.shape}"
        )
    centre, mean = changes.mean(axis=0), shares.mean(axis=0)
    moved = changes - centre
    gram = moved.T @ moved
    ridge = _RIDGE * max(float(np.trace(gram)) / len(gram), 1e-300)
    factors: F64 = np.linalg.solve(gram + ridge * np.eye(len(gram)), moved.T @ (shares - mean))
    return LabelModel(factors, centre, mean)


def on_simplex(values: F64) -> F64:
    """Return the nearest non-negative point with sum 1 (Held, Wolfe and Crowder 1974)."""
    falling = np.sort(values)[::-1]
    over = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(falling > over)[-1]
    nearest: F64 = np.maximum(values - over[kept], 0.0)
    return nearest


def distances(estimated: F64, true: F64) -> F64:
    """Return the total variation between rows, f64 ``(n,)``: the fraction of samples in a wrong class."""
    far: F64 = 0.5 * np.abs(estimated - true).sum(axis=1)
    return far
