"""Min-Max: as far off the mean as an honest update could be, by its longest distance to another."""

from typing import Literal

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.entropy import Entropy

Direction = Literal["unit", "sign", "std"]
"""Where to: against the mean, against its signs, or against the standard deviations."""


class MinMax(scenario.InformedAttack, tag="min-max", frozen=True, kw_only=True):
    """The farthest update from the known mean within the distance of the two most distant known updates.

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
    """The mean of the known updates, moved until one of them is as far away as the two most distant ones are.

    That is mean + gamma p for a direction p and the largest gamma with
    max_i ||mean + gamma p - x_i|| <= max_ij ||x_i - x_j||. Each i gives a quadratic inequality in gamma that
    holds at 0, so gamma is the smallest of their larger roots: no search is needed.

    Knows: all honest updates in the source's strongest form; in the coalition's form those of its members
    (the source's second adversary).
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
    """||x_i - x_j||^2, f64 ``(k, k)``, as near as one Gram matrix gives it.

    Rules round the rows first, so that all get the same bits; nobody repeats what an attacker computes.
    """
    products = rows @ rows.T
    norms = np.diagonal(products)
    squared: F64 = norms[:, np.newaxis] + norms - 2.0 * products
    np.fill_diagonal(squared, 0.0)
    return np.maximum(squared, 0.0)


def perturbation(known: F64, direction: Direction) -> F64:
    """The vector p, f64 ``(d,)``: -mean / ||mean||, -sign(mean) or -std (of the rows as a population).

    It is zero where the mean, or the spread, is.
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
    """The mean, and the rows without it: their distances are the same, without the cancellation."""
    mean: F64 = known.mean(axis=0)
    return mean, known - mean
