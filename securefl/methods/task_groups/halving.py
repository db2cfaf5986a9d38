"""Halving: evidence that members of one model are of several groups, and the direction to part them along.

Members of two groups that share a model pull it to two sides: at rest their mean updates are opposite, so
that means of a few members lie along one line, and a step along it makes one group's loss smaller and the
other's larger. The same rule doubles a code book in vector quantisation (Linde, Buzo and Gray 1980).
"""

import math
from dataclasses import dataclass, field

import numpy as np

from securefl.base.arrays import F64, I64, expect
from securefl.base.errors import UsageError
from securefl.methods import robust

_SQUARINGS = 40
"""After which an eigenvalue that is a millionth of a millionth smaller is nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """The spread of one model's members, as far as means over clusters show it."""

    ratio: float
    """The largest eigenvalue of the means' covariance by the average one, 1 to c - 1: near 1 where members
    differ by chance only, more where they are of several groups."""
    length: float
    """L2, parameters' own unit: root mean square of one member's deviation in the main direction, or
    somewhat less, as long deviations are shortened."""
    direction: F64 = field(repr=False)
    """Of length 1, or zero where all means are alike, f64 ``(d,)``."""


def spread(means: F64, members: I64) -> Spread:
    """The main direction of cluster means, of which less than half may be anything.

    Deviations from the coordinate-wise median are shortened to the median length, so that no outlier is a
    direction. A mean over n members deviates by 1 / sqrt(n) of what one of them does.

    Cost: O(c^2 d).

    Args:
        means: f64 ``(c, d)``, c >= 2, finite.
        members: of each mean, i64 ``(c,)``, at least 1.

    Raises:
        UsageError: fewer than two means, or a mean of nobody.
    """
    expect(means, "means", np.float64, (None, None))
    expect(members, "members", np.int64, (len(means),))
    if len(means) < 2 or (members < 1).any():
        raise UsageError("only means of somebody, and two of them at least, have a spread")
    away = means - np.median(means, axis=0)
    far = robust.lengths(away)
    away *= np.minimum(1.0, np.median(far) / np.maximum(far, 1e-300))[:, np.newaxis]
    away -= robust.fold(away.copy()) / len(away)
    products = robust.gram(away)
    largest, main = leading(products)
    direction = robust.combine(main, away)
    (long,) = robust.lengths(direction[np.newaxis])
    if not long > 0:
        return Spread(1.0, 0.0, np.zeros_like(direction))
    # Deviations from their mean leave one eigenvalue of 0.
    ratio = largest / robust.total(np.diag(products)) * (len(means) - 1)
    length = math.sqrt(largest / len(means) * (int(members.sum()) / len(members)))
    return Spread(ratio, length, direction / long)


def leading(products: F64) -> tuple[float, F64]:
    """The largest eigenvalue of inner products and its vector, of length 1, by squaring them again and again.

    Not by LAPACK, whose last bits depend on the processor: verifiers repeat the step on theirs (ADR 0045). An
    eigenvector has no sign of its own: its largest entry is above zero. Where all products are zero, so are
    both.

    Args:
        products: f64 ``(c, c)``, symmetric, no eigenvalue below zero but by rounding.
    """
    power, largest = products, float(np.abs(products).max())
    if not largest > 0:
        return 0.0, np.zeros(len(products))
    for _ in range(_SQUARINGS):
        power = power / np.abs(power).max()
        squared = np.stack([robust.fold(row[:, np.newaxis] * power) for row in power])
        if np.array_equal(squared, power):
            break
        power = squared
    column = power[:, int(np.diag(power).argmax())]
    column = column / np.abs(column).max()
    vector: F64 = column / math.sqrt(robust.total(column * column))
    if vector[np.abs(vector).argmax()] < 0:
        vector = -vector
    image = np.array([robust.total(row * vector) for row in products / largest])
    return largest * robust.total(image * vector), vector
