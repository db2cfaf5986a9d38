"""Coordinate-wise mean between two weighted quantiles."""

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust import distances, products

Places = npt.NDArray[np.int64]


def weight_trimmed_mean(stack: ClusterMeans, beta: float) -> AggregationResult:
    """Return, by coordinate, the mean of the values between the weighted ``beta`` and 1 - ``beta`` quantiles.

    With values in ascending order and T their total weight, each value counts with the part of its weight
    within [beta T, (1 - beta) T] of the cumulated weights. So the result is continuous in weights and values,
    and splitting one cluster into two of the same value changes nothing. (The code of Portnoy et al. 2022
    trims by weight, but keeps all or none of the values at the quantiles.)

    ``kept``: clusters with at least half of their fair share of coordinates, 1 - 2 beta of all, within the
    range of the values that count.

    Breakdown point: clusters that weigh beta T together, floor(beta c) of equal weight, cannot move a
    coordinate out of the range of the others. One cluster of more weight is the result.
    Cost: one sort of c values a coordinate; O(d) memory.

    Raises:
        UsageError: ``beta`` is not in [0, 1/2).
    """
    if not 0 <= beta < 0.5:
        raise UsageError(f"beta, the trimmed share of each end, must be in [0, 1/2), found {beta}")
    whole = products.total(stack.weights)
    low, high = beta * whole, (1 - beta) * whole
    vector = np.empty(stack.dimension)
    survived = np.zeros(stack.clusters, dtype=np.int64)
    mask = distances.tag_mask(stack.clusters)
    for block in distances.column_blocks(stack.means, tagged=True):
        whose: Places = block.ranked.view(np.int64) & mask
        share = _within(stack.weights[whose], low, high)
        counts = share > 0
        least = _value(block, whose, counts.argmax(axis=0))
        most = _value(block, whose, stack.clusters - 1 - counts[::-1].argmax(axis=0))
        survived += [np.count_nonzero((row >= least) & (row <= most)) for row in block.rows]
        kept = block.scratch
        np.put_along_axis(kept, whose, share, axis=0)
        mean = products.fold(np.multiply(kept, block.rows, out=block.rows))
        mean /= products.fold(kept)
        # Rounding must not leave their range.
        np.clip(mean, least, most, out=vector[block.at])
    vector += 0.0  # clipping may take either of two zeros of different sign
    return AggregationResult(vector, 2 * survived >= (1 - 2 * beta) * stack.dimension)


def _within(ranked: F64, low: float, high: float) -> F64:
    """Return the part of weights ordered by value, f64 ``(c, k)``, between two cumulated weights."""
    upto = np.cumsum(ranked, axis=0)
    upto -= ranked
    below = np.clip(upto, low, high)
    upto += ranked
    np.clip(upto, low, high, out=upto)
    upto -= below
    return upto


def _value(block: distances.Block, whose: Places, rank: npt.NDArray[np.intp]) -> F64:
    columns = np.arange(block.rows.shape[1])
    value: F64 = block.rows[whose[rank, columns], columns]
    return value
