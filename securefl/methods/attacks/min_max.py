"""Min-Max and Min-Sum: as far off the mean as an honest update could be, by one's distances to the others."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from securefl.base.arrays import F64
from securefl.methods.robust import squared_distances

Direction = Literal["unit", "sign", "std"]
"""Where to: against the mean, against its signs, or against the standard deviations."""


def min_max(known: F64, direction: Direction) -> F64:
    """The mean of the known updates, moved until one of them is as far away as the two most distant ones are.

    That is mean + gamma p for a direction p and the largest gamma with
    max_i ||mean + gamma p - x_i|| <= max_ij ||x_i - x_j||. Each i gives a quadratic inequality in gamma that
    holds at 0, so gamma is the smallest of their larger roots: no search is needed.

    Knows: all honest updates in the source's strongest form; in the coalition's form those of its members
    (the source's second adversary).
    Source: Shejwalkar and Houmansadr 2021 (NDSS), Min-Max, agnostic to the rule.
    """
    mean, offsets = _centred(known)
    bound = float(squared_distances(offsets).max())
    push = perturbation(known, direction)
    length = float(push @ push)
    if length == 0.0:
        return mean
    # ||gamma p - o||^2 = length gamma^2 - 2 gamma (o . p) + ||o||^2 for the offset o of a known update.
    towards = offsets @ push
    slack = bound - np.einsum("ij,ij->i", offsets, offsets)
    roots = (towards + np.sqrt(np.maximum(towards**2 + length * slack, 0.0))) / length
    return mean + max(0.0, float(roots.min())) * push


def min_sum(known: F64, direction: Direction) -> F64:
    """The mean of the known updates, moved until its squared distances sum up to the most that one has.

    That is mean + gamma p for a direction p and the largest gamma with
    sum_i ||mean + gamma p - x_i||^2 <= max_i sum_j ||x_i - x_j||^2. As the offsets from the mean add up to
    zero, gamma^2 = (bound - sum_i ||mean - x_i||^2) / (k ||p||^2).

    Knows and source: as :func:`min_max`; Min-Sum.
    """
    mean, offsets = _centred(known)
    bound = float(squared_distances(offsets).sum(axis=1).max())
    push = perturbation(known, direction)
    length = float(push @ push)
    if length == 0.0:
        return mean
    slack = bound - float(np.einsum("ij,ij->", offsets, offsets))
    return mean + math.sqrt(max(0.0, slack) / (len(known) * length)) * push


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


def _centred(known: F64) -> tuple[F64, F64]:
    """The mean, and the rows without it: their distances are the same, without the cancellation."""
    mean: F64 = known.mean(axis=0)
    return mean, known - mean
