"""Label inference: samples of each class at parties, from what training did to the last layer's bias.

The bias of class c moves with (share of c in the data) - (what the model expects of c), step by step: the
gradient of cross-entropy (Wainakh et al. 2022, "User-level label leakage from gradients in federated
learning", arXiv 2105.09369). A sum over a cluster moves with the mean share. What the steps of a local
training make of it is learned from shadow parties whose shares are known.
"""

from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import F64
from securefl.base.errors import UsageError

_RIDGE = 1e-3
"""Of the mean variance of the biases' changes: keeps the fit stable where they depend on each other."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelModel:
    """An affine map from changes of biases to shares; made by :func:`learn`."""

    factors: F64
    """f64 ``(classes, classes)``."""
    change: F64
    """The shadow parties' mean change, f64 ``(classes,)``."""
    shares: F64
    """Their mean shares, f64 ``(classes,)``."""

    def estimate(self, changes: F64) -> F64:
        """Shares of the classes, f64 ``(n, classes)``, none negative, each row with sum 1.

        Args:
            changes: of the biases, of parties or as means over clusters, f64 ``(n, classes)``.
        """
        raw = self.shares + (changes - self.change) @ self.factors
        return np.stack([on_simplex(row) for row in raw])


def learn(changes: F64, shares: F64) -> LabelModel:
    """Least squares with a small ridge.

    Args:
        changes: of the biases, of shadow parties, f64 ``(k, classes)``, k >= 2.
        shares: of the classes in their data, f64 ``(k, classes)``.

    Raises:
        UsageError: shapes that do not fit, or fewer than two shadow parties.
    """
    if changes.shape != shares.shape or changes.ndim != 2 or len(changes) < 2:
        raise UsageError(f"expected equal shapes (k >= 2, classes), found {changes.shape}, {shares.shape}")
    centre, mean = changes.mean(axis=0), shares.mean(axis=0)
    moved = changes - centre
    gram = moved.T @ moved
    ridge = _RIDGE * max(float(np.trace(gram)) / len(gram), 1e-300)
    factors: F64 = np.linalg.solve(gram + ridge * np.eye(len(gram)), moved.T @ (shares - mean))
    return LabelModel(factors, centre, mean)


def on_simplex(values: F64) -> F64:
    """The nearest point with no negative coordinate and sum 1 (Held, Wolfe and Crowder 1974)."""
    falling = np.sort(values)[::-1]
    over = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(falling > over)[-1]
    nearest: F64 = np.maximum(values - over[kept], 0.0)
    return nearest


def distances(estimated: F64, true: F64) -> F64:
    """Total variation between rows, f64 ``(n,)``: the share of samples that is booked under a wrong class."""
    far: F64 = 0.5 * np.abs(estimated - true).sum(axis=1)
    return far
