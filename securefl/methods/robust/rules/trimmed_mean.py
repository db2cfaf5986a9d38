"""Trimmed mean."""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.errors import ConfigError, UsageError
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust.distances import column_blocks
from securefl.methods.robust.products import fold
from securefl.methods.robust.weight_trimmed_mean import weight_trimmed_mean


class TrimmedMean(scenario.Rule, tag="trimmed-mean", frozen=True, kw_only=True):
    """Coordinate-wise mean without the smallest and the largest values.

    In each coordinate, of sorted values v_1 <= ... <= v_c: (v_{t+1} + ... + v_{c-t}) / (c - 2 t), t =
    ``trim``.

    Example:
        >>> TrimmedMean(trim=1)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]])
        array([2.5, 2.5])
    """

    by_coordinate: ClassVar[bool] = True
    remedies: ClassVar[Mapping[str, str]] = {"trim": 'a number, or { trim = "count", beta = 0.1 }'}

    trim: scenario.NonNegative | Literal["count", "weight"]
    """Number of values trimmed at each end, or a word with ``beta``, the share at each end: of the values
    (``count``), or of their weight (``weight``, the mean between weighted quantiles)."""
    beta: Annotated[float, Meta(ge=0, lt=0.5)] | None = None
    """Share at each end if ``trim`` is a word; a share of the values is rounded down."""

    def at_each_end(self, values: int) -> int:
        """Return the number of ``values`` values trimmed at each end, if all have the same weight."""
        if isinstance(self.trim, int):
            return self.trim
        # In floating point 0.07 * 100 is 7.000000000000001, 0.29 * 100 is 28.999999999999996.
        return math.floor((self.beta or 0.0) * values + 1e-9)

    @property
    def clusters_needed(self) -> int:
        return 2 * self.trim + 1 if isinstance(self.trim, int) else 1

    def withstands(self, clusters: int) -> int:
        return self.at_each_end(clusters)

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        if self.trim == "weight":
            return weight_trimmed_mean(stack, self.beta or 0.0)
        return trimmed_mean(stack, self.at_each_end(stack.clusters))

    def check(self, path: str) -> None:
        if isinstance(self.trim, str) and self.beta is None:
            reason = f'trim = "{self.trim}" needs beta'
            raise ConfigError(f"{path}.beta", reason, "the share at each end, as in beta = 0.1")
        if isinstance(self.trim, int) and self.beta is not None:
            reason = f"trim = {self.trim} is a number, so beta has no effect"
            raise ConfigError(f"{path}.beta", reason, 'leave it out, or trim = "count" or "weight"')


def trimmed_mean(stack: ClusterMeans, trim: int) -> AggregationResult:
    """Return, by coordinate, the weighted mean without the ``trim`` smallest and ``trim`` largest values.

    Trimming counts clusters without their weights. Equal values at the cut share the remaining places evenly
    (weights times places / equal values). ``kept``: clusters with at least half of their fair share of
    coordinates, (c - 2 trim) / c of all, within the range of the values that remain.

    Breakdown point: ``trim`` clusters cannot move a coordinate out of the range of the others.
    Cost: one sort of c values a coordinate; O(d) memory.
    Source: Yin et al. 2018 (arXiv 1803.01498), definition 2, with weights.

    Raises:
        UsageError: ``trim`` is negative, or not 2 * trim < c.
    """
    clusters = stack.clusters
    if trim < 0 or clusters <= 2 * trim:
        raise UsageError(f"trim must be at least 0 and below half of the {clusters} clusters, found {trim}")
    vector = np.empty(stack.dimension)
    survived = np.zeros(clusters, dtype=np.int64)
    for at, rows, ranked, share in column_blocks(stack.means):
        low, high = ranked[trim], ranked[clusters - 1 - trim]
        inside = rows >= low
        inside &= rows <= high
        # Counting along an axis would first convert every flag to an integer.
        survived += [np.count_nonzero(row) for row in inside]
        np.copyto(share, inside)
        if trim:
            (cut,) = np.nonzero((ranked[trim - 1] == low) | (ranked[clusters - trim] == high))
            if cut.size:
                share[:, cut] = _shares(rows[:, cut], low[cut], high[cut], trim)
        np.multiply(share, stack.weights[:, np.newaxis], out=share)
        mean = fold(np.multiply(rows, share, out=rows))
        mean /= fold(share)
        np.clip(mean, low, high, out=vector[at])
    vector += 0.0  # clipping may take either of two zeros of different sign
    return AggregationResult(vector, 2 * clusters * survived >= (clusters - 2 * trim) * stack.dimension)


def _shares(rows: F64, low: F64, high: F64, trim: int) -> F64:
    """Return each value's remaining share: 1 inside (low, high), 0 outside, equal parts at the ends."""
    below, above, at_low, at_high = rows < low, rows > high, rows == low, rows == high
    share = (~(below | above)).astype(np.float64)
    share -= at_low * ((trim - below.sum(axis=0)) / at_low.sum(axis=0))
    share -= at_high * ((trim - above.sum(axis=0)) / at_high.sum(axis=0))
    return share
