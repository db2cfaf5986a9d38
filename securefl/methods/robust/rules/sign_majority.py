"""Majority of signs."""

from typing import ClassVar

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import AggregationResult, ClusterMeans, all_kept
from securefl.methods.robust.rules.median import WEIGHT_UNITS


class SignMajority(scenario.Rule, tag="sign-majority", frozen=True, kw_only=True):
    """Coordinate-wise a fixed step in the direction of the majority: step * sign(sum_i sign(x_i)) (signSGD).

    Example:
        >>> SignMajority(step=0.1)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]])
        array([0.1, 0.1])
    """

    by_coordinate: ClassVar[bool] = True

    step: scenario.PositiveReal
    """Step of each coordinate, in the unit of the parameters; lengths of updates have no effect."""

    def withstands(self, clusters: int) -> int:
        return (clusters - 1) // 2

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        return sign_majority(stack, self.step)


def sign_majority(stack: ClusterMeans, step: float) -> AggregationResult:
    """Return ``step`` in the direction of more weight, by coordinate: step * sign(sum_i w_i sign(x_i)).

    It is 0 if both directions weigh the same, up to 2^-31 c of the largest weight. ``kept``: all clusters,
    since all vote.

    Breakdown point: no coordinate ever exceeds ``step``. If clusters with more than half of the weight agree
    on a direction, the others, floor((c - 1) / 2) of equal weight, cannot change it. If the honest clusters
    disagree, few Byzantine ones suffice. The source proves convergence against fewer than half that negate
    their signs, for noise that is unimodal and symmetric in each coordinate.
    Cost: O(c d) time, O(d) memory.
    Source: Bernstein, Zhao, Azizzadenesheli, Anandkumar 2019, "signSGD with majority vote is communication
    efficient and fault tolerant" (arXiv 1810.05291), algorithm 1 without momentum, theorem 2; with weights.

    Raises:
        UsageError: ``step`` is not positive.
    """
    if not step > 0:
        raise UsageError(f"step must be positive, found {step}")
    # Sums of integers are exact in any order of the clusters.
    units = np.maximum(np.rint(stack.weights * (WEIGHT_UNITS / stack.weights.max())), 1.0)
    votes, vote = np.zeros(stack.dimension), np.empty(stack.dimension)
    for weight, row in zip(units, stack.means, strict=True):
        np.sign(row, out=vote)
        vote *= weight
        votes += vote
    votes[np.abs(votes) <= _tie_error(units)] = 0.0
    np.sign(votes, out=votes)
    votes *= step
    return AggregationResult(votes, all_kept(stack))


def _tie_error(units: F64) -> float:
    """Return the rounding error of a tie: 0 if all weights are equal."""
    return 0.0 if bool((units == units[0]).all()) else 2.0 * len(units)
