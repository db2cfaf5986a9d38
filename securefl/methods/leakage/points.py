"""Dependent points of a projective space: exhaustive searches for few of them, modulo a prime.

Row i of the null space's basis is party i's point. A combination of sums with support S exists exactly if
the points of S have a dependency without a zero
(see :meth:`securefl.methods.leakage.echelon.Echelon.kernel_image`). A random projection to s dimensions
keeps dependent points dependent, and s independent ones independent but for a probability of about s / prime.
So a search in the projection misses nothing, and what it finds is checked.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from securefl.base.arrays import I64
from securefl.methods.leakage import modular


class UnluckyError(Exception):
    """A projection moved a point to infinity: take another."""


def affine(points: I64, prime: int) -> I64:
    """Divide ``(n, d)`` points by their first coordinate and return the other ones, ``(n, d - 1)``.

    Raises:
        UnluckyError: a first coordinate is 0.
    """
    if not points[:, 0].all():
        raise UnluckyError
    return modular.times(points[:, 1:], modular.inverses(points[:, 0], prime)[:, None], prime)


def seen_from(places: I64, centre: int, prime: int) -> I64:
    """The directions of all affine points from one of them: ``(n, d)``, points of one dimension less."""
    directions: I64 = places - places[centre]
    directions += (directions < 0) * prime
    return directions


def equal_groups(values: I64) -> list[list[int]]:
    """Groups, of two or more, of numbers of equal entries of ``values``, ``(n,)``."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(values[order]) != 0]))
    return [group.tolist() for group in np.split(order, starts[1:]) if len(group) > 1]


def lines(places: I64, prime: int) -> Iterator[tuple[int, list[int]]]:
    """Lines through three or more affine points ``(n, 2)``, as ``(j, [k, l, ...])`` with j < k < l.

    A line appears for each of its points that two others follow.

    Raises:
        UnluckyError: two points have one first coordinate.
    """
    count = len(places)
    if count < 3:
        return
    first, second = np.triu_indices(count, 1)
    directions = places[second] - places[first]
    slopes = np.full((count, count), -1, np.int64)
    slopes[first, second] = affine(directions + (directions < 0) * prime, prime)[:, 0]
    ranked = np.sort(slopes, axis=1)
    for j in np.flatnonzero(((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] >= 0)).any(axis=1)).tolist():
        for group in equal_groups(slopes[j, j + 1 :]):
            yield j, [j + 1 + k for k in group]


def dependent_set(points: I64, prime: int) -> tuple[int, ...] | None:
    """The first d of the points ``(n, d)`` that are dependent, provided that no d - 1 of them are.

    Costs about C(n, d - 1) steps of some 0.5 microseconds.

    Raises:
        UnluckyError: as :func:`affine`.
    """
    count, dimensions = points.shape
    if dimensions == 1:
        return next(((int(zero),) for zero in np.flatnonzero(points[:, 0] == 0)), None)
    if count < dimensions:
        return None
    places = affine(points, prime)
    if dimensions == 2:
        return next(((i, j) for i, j, *_ in equal_groups(places[:, 0])), None)
    if dimensions == 3:
        return next(((j, k, m) for j, (k, m, *_) in lines(places, prime)), None)
    for centre in range(count - dimensions + 1):
        directions = seen_from(places[centre:], 0, prime)[1:]
        rest = dependent_set(directions, prime)
        if rest is not None:
            return (centre, *(centre + 1 + k for k in rest))
    return None
