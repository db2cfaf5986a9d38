"""Min-Max."""

from typing import Literal

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.entropy import Entropy

Direction = Literal["unit", "sign", "std"]


class MinMax(scenario.InformedAttack, tag="min-max", frozen=True, kw_only=True):
    """Farthest update from the known mean within the distance of the two most distant known updates.

    mean(x) + gamma p, the largest gamma with max_i ||result - x_i|| <= max_ij ||x_i - x_j||, p by
    ``direction``.

    Example:
        >>> MinMax()([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]).round(6)
        array([1., 2.])
    """

    direction: Direction = "std"
    """p: against the mean (``unit``), its signs (``sign``), or the standard deviations (``std``)."""

    def collude(self, known: F64, actors: int, entropy: Entropy) -> F64:
        return min_max(known, self.direction)


def min_max(known: F64, direction: Direction) -> F64:
    """Return the mean of the known updates, moved as far as the largest distance between two of them allows.

    See :class:`MinMax`. Each i gives a quadratic inequality in gamma that holds at 0, so gamma is the
    smallest of their larger roots.

    Knows: all honest updates, or those of its coalition (the source's second adversary).
    Source: Shejwalkar and Houmansadr 2021 (NDSS), Min-Max, agnostic to the rule.
    """
    mean, offsets = centre_rows(known)
    bound = float(squared_between(offsets).max())
    push = perturbation(known, direction)
    length = float(push @ push)
    if length == 0.0:
        return mean
    # ||gamma p - o||^2 = length gamma^2 - 2 gamma (o . p) + ||o||^2 for the offset o of a known update.
    towards = offsets @ push
    slack = bound - np.einsum("ij,ij->i", offsets, offsets)
    roots = (towards + np.sqrt(np.maximum(towards**2 + length * slack, 0.0))) / length
    return mean + max(0.0, float(roots.min())) * push


def squared_between(rows: F64) -> F64:
    """Return ||x_i - x_j||^2, f64 ``(k, k)``, from one Gram matrix, without the rules' rounding of rows."""
    products = rows @ rows.T
    norms = np.diagonal(products)
    squared: F64 = norms[:, np.newaxis] + norms - 2.0 * products
    np.fill_diagonal(squared, 0.0)
    return np.maximum(squared, 0.0)


def perturbation(known: F64, direction: Direction) -> F64:
    """Return the vector p, f64 ``(d,)``: -mean / ||mean||, -sign(mean) or -std (rows as a population).

    It is zero if the mean, or the standard deviation, is zero.
    """
    if direction == "std":
        spread: F64 = known.std(axis=0)
        return -spread
    mean: F64 = known.mean(axis=0)
    if direction == "sign":
        return -np.sign(mean)
    norm = float(np.linalg.norm(mean))
    return -mean / norm if norm > 0.0 else np.zeros_like(mean)


def centre_rows(known: F64) -> tuple[F64, F64]:
    """Return the mean, and the rows minus it: the same distances, without cancellation."""
    mean: F64 = known.mean(axis=0)
    return mean, known - mean
