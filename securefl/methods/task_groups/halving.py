"""Halving: evidence that members of one model belong to several groups, and the direction of the split.

At rest, the mean updates of two groups that share a model are opposite. So means of a few members lie along
one line, and a step along it lowers one group's loss and raises the other's. Vector quantisation doubles a
code book by the same rule (Linde, Buzo and Gray 1980).
"""

import math
from dataclasses import dataclass, field

import numpy as np

from securefl.base.arrays import F64, I64, expect
from securefl.base.errors import UsageError
from securefl.methods import robust

_SQUARINGS = 40
"""Enough to make an eigenvalue smaller by a relative 10^-12 negligible."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Spread of one model's members, as seen in means over clusters."""

    ratio: float
    """Largest eigenvalue of the means' covariance over the average one, 1 to c - 1.

    It is near 1 if members differ only by chance, larger if they belong to several groups.
    """
    length: float
    """Root mean square of one member's deviation in the main direction, L2, in the parameters' unit.

    Slightly less, since long deviations are shortened.
    """
    direction: F64 = field(repr=False)
    """Unit vector, or zero if all means are equal, f64 ``(d,)``."""


def spread(means: F64, members: I64) -> Spread:
    """Return the main direction of cluster means, if less than half of them are Byzantine.

    Deviations from the coordinate-wise median are shortened to the median length, so that outliers do not
    determine the direction. A mean over n ``members`` >= 1, i64 ``(c,)``, deviates by 1 / sqrt(n) of one
    member's deviation. ``means`` are f64 ``(c, d)``, finite.

    Cost: O(c^2 d).

    Raises:
        UsageError: fewer than two means, or a mean without members.
    """
    expect(means, "means", np.float64, (None, None))
    expect(members, "members", np.int64, (len(means),))
    if len(means) < 2 or (members < 1).any():
        raise UsageError(
            "means must have 2 rows or more for a spread, with members of at least 1 each; found"
            f" {len(means)} rows"
        )
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
    # Deviations from their mean have one eigenvalue of 0.
    ratio = largest / robust.total(np.diag(products)) * (len(means) - 1)
    length = math.sqrt(largest / len(means) * (int(members.sum()) / len(members)))
    return Spread(ratio, length, direction / long)


def leading(products: F64) -> tuple[float, F64]:
    """Return the largest eigenvalue of inner products and its unit vector, by repeated squaring.

    LAPACK's last bits depend on the processor, and verifiers repeat the step on their own machines (ADR
    0045). An eigenvector has no sign, so its largest entry is made positive. If all ``products``, f64 ``(c,
    c)``, positive semidefinite up to rounding, are zero, so are both results.
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
