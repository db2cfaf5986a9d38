"""Similarity of pictures: mean squared error and structural similarity."""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from securefl.base.arrays import F64
from securefl.base.errors import UsageError

WINDOW = 7
"""Width of windows of :func:`ssim`, pixels."""


class Match(NamedTuple):
    """Most similar candidate of an original."""

    candidate: int
    mse: float
    ssim: float


def mse(one: F64, other: F64) -> float:
    """Return the mean squared difference of two pictures of the same shape."""
    return float(np.mean((one - other) ** 2))


def ssim(one: F64, other: F64) -> float:
    """Return the mean structural similarity of pictures in [0, 1]: 1 if equal, about 0 if unrelated.

    Wang et al. 2004, "Image quality assessment", equation 13, with uniform windows and unbiased variances.
    Both are f64 ``(height, width)`` with sides >= 7.

    Raises:
        UsageError: different or too small shapes.
    """
    if one.shape != other.shape or one.ndim != 2 or min(one.shape) < WINDOW:
        raise UsageError(
            f"one and other must be pictures of one shape, at least {WINDOW} x {WINDOW}; found"
            f" {one.shape}, {other.shape}"
        )
    a, b = (sliding_window_view(picture, (WINDOW, WINDOW)) for picture in (one, other))
    mean_a, mean_b = a.mean(axis=(2, 3)), b.mean(axis=(2, 3))
    free = WINDOW**2 / (WINDOW**2 - 1)
    var_a, var_b = free * a.var(axis=(2, 3)), free * b.var(axis=(2, 3))
    joint = free * ((a * b).mean(axis=(2, 3)) - mean_a * mean_b)
    c1, c2 = 0.01**2, 0.03**2
    above = (2 * mean_a * mean_b + c1) * (2 * joint + c2)
    below = (mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2)
    return float((above / below).mean())


def best_matches(originals: F64, candidates: F64) -> tuple[Match, ...]:
    """Return the most similar candidate of each original; several may share one.

    Args:
        originals: f64 ``(n, height, width)`` in [0, 1].
        candidates: f64 ``(k, height, width)``, k >= 1; cut to [0, 1].

    Raises:
        UsageError: no candidate, or other shapes.
    """
    if not len(candidates):
        raise UsageError("candidates must have at least 1 picture, found none")
    inside = np.clip(candidates, 0.0, 1.0)
    found = []
    for original in originals:
        alike = [ssim(original, candidate) for candidate in inside]
        at = int(np.argmax(alike))
        found.append(Match(at, mse(original, inside[at]), alike[at]))
    return tuple(found)
