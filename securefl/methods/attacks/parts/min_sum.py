"""Min-Sum."""

import math

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.entropy import Entropy
from securefl.methods.attacks.parts import min_max


class MinSum(scenario.InformedAttack, tag="min-sum", frozen=True, kw_only=True):
    """Farthest update from the known mean within the sum of squared distances of a known update.

    mean(x) + gamma p, the largest gamma with sum_i ||result - x_i||^2 <= max_i sum_j ||x_i - x_j||^2.

    Example:
        >>> MinSum()([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]).round(6)
        array([1., 2.])
    """

    direction: min_max.Direction = "std"
    """p: against the mean (``unit``), its signs (``sign``), or the standard deviations (``std``)."""

    def collude(self, known: F64, actors: int, entropy: Entropy) -> F64:
        return min_sum(known, self.direction)


def min_sum(known: F64, direction: min_max.Direction) -> F64:
    """Return the mean of the known updates, moved as far as the largest sum of squared distances allows.

    See :class:`MinSum`. The offsets from the mean add up to zero, so gamma^2 = (bound - sum_i ||mean
    - x_i||^2) / (k ||p||^2).

    Knows and source: as :func:`securefl.methods.attacks.parts.min_max.min_max`; Min-Sum.
    """
    mean, offsets = min_max.centre_rows(known)
    bound = float(min_max.squared_between(offsets).sum(axis=1).max())
    push = min_max.perturbation(known, direction)
    length = float(push @ push)
    if length == 0.0:
        return mean
    slack = bound - float(np.einsum("ij,ij->", offsets, offsets))
    return mean + math.sqrt(max(0.0, slack) / (len(known) * length)) * push
