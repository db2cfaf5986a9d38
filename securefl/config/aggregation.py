"""The ``[aggregation]`` table: rules on cluster means, what may stand in front of them, and the claim.

The rules themselves, with their formulas and sources, are in :mod:`securefl.robust`.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from msgspec import Meta

from securefl.config.section import Fraction, NonNegative, NonNegativeReal, Positive, PositiveReal, Section

MAX_DIAMETER_BYZANTINE = 20
"""Most outliers that minimum-diameter averaging looks for: its search grows like 1.47 to this power."""


class Mean(Section, tag="mean", frozen=True, kw_only=True):
    """Weighted mean of the cluster means: with no faults equal to FedAvg."""


class Median(Section, tag="median", frozen=True, kw_only=True):
    """Coordinate-wise (weighted) median of the cluster means."""


class TrimmedMean(Section, tag="trimmed-mean", frozen=True, kw_only=True):
    """Coordinate-wise mean without the smallest and the largest values."""

    trim: NonNegative | Literal["count", "weight"]
    """So many at each end; or the share ``beta``: of the values, or of their weight (between quantiles)."""
    beta: Annotated[float, Meta(ge=0, lt=0.5)] | None = None
    """Where ``trim`` is a word: how much of it at each end; a share of the values is rounded down."""

    def at_each_end(self, values: int) -> int:
        """How many of ``values`` values are trimmed at each end, were all of one weight."""
        if isinstance(self.trim, int):
            return self.trim
        # 0.07 * 100 is 7.000000000000001, and 0.29 * 100 is 28.999999999999996.
        return math.floor((self.beta or 0.0) * values + 1e-9)


class MeanAroundMedian(Section, tag="mean-around-median", frozen=True, kw_only=True):
    """Coordinate-wise mean of the c - ``byzantine`` values nearest to the median."""

    byzantine: NonNegative


class Krum(Section, tag="krum", frozen=True, kw_only=True):
    """The cluster mean closest to its c - byzantine - 2 nearest ones."""

    byzantine: NonNegative


class MultiKrum(Section, tag="multi-krum", frozen=True, kw_only=True):
    """The mean of the ``keep`` cluster means with the best Krum scores."""

    byzantine: NonNegative
    keep: Positive | None = None
    """At most c - ``byzantine``, which is also what None means."""


class Bulyan(Section, tag="bulyan", frozen=True, kw_only=True):
    """Krum, repeated to select c - 2 byzantine rows, then coordinate-wise the mean around their median."""

    byzantine: NonNegative


class GeometricMedian(Section, tag="geometric-median", frozen=True, kw_only=True):
    """The point with the smallest weighted sum of distances to the cluster means (RFA)."""

    smoothing: PositiveReal = 1e-6
    """Distance, in parameters' own unit, below which a row no longer pulls harder."""
    tolerance: PositiveReal = 1e-10
    """Stop when an iteration lowers the sum of distances by less than this fraction of it."""
    iterations: Positive = 1000
    """Stop after so many in any case."""


class CentredClipping(Section, tag="centred-clipping", frozen=True, kw_only=True):
    """The previous aggregate plus the mean of the differences to it, each clipped to ``radius``."""

    radius: PositiveReal
    """L2, parameters' own unit."""
    iterations: Positive = 1
    """How often, each time around the last result."""


class MinimumDiameter(Section, tag="minimum-diameter", frozen=True, kw_only=True):
    """The mean of those c - ``byzantine`` cluster means that lie within the smallest diameter; exact."""

    byzantine: Annotated[int, Meta(ge=0, le=MAX_DIAMETER_BYZANTINE)]


class SignMajority(Section, tag="sign-majority", frozen=True, kw_only=True):
    """Coordinate-wise a fixed step in the direction that most cluster means have (signSGD)."""

    step: PositiveReal
    """Of each coordinate, parameters' own unit: the length of updates does not count."""


class FlTrust(Section, tag="fltrust", frozen=True, kw_only=True):
    """Cluster means as long as the server's own update, weighted by how much they point its way."""


class ZenoPlusPlus(Section, tag="zeno++", frozen=True, kw_only=True):
    """Cluster means that pass a test on a gradient of the server's validation data."""

    scale: Literal["sum", "mean", "normalised"] = "normalised"
    """Of the scored vector: the cluster's share n_i / n of the sum, its mean, or its mean made as long as the
    validation gradient."""
    rho: NonNegativeReal = 1e-4
    """Price of a squared length."""
    eps: NonNegativeReal = 0.0
    """How far from a descent an update may be. A squared gradient norm, so it has a scale."""
    eta: PositiveReal = 1.0
    """Step that the score reckons with: the server's learning rate."""
    divide_by: Literal["all", "accepted"] = "all"
    """The sum of the accepted updates is divided by the weight of all clusters (Algorithm 2), or of these."""
    batch: Positive = 128
    """Validation samples, drawn each time, that the gradient is taken on."""


class InnerProduct(Section, tag="inner-product", frozen=True, kw_only=True):
    """Cluster means whose members have, so far, gone along with descent on the server's data most."""

    gamma: Fraction
    """Share of the cluster means that are believed to be honest."""
    select: Literal["accumulated", "per-round"] = "accumulated"
    """By what the members have earned in the whole run, or by this round's scores alone."""
    half_life: PositiveReal | None = None
    """Rounds with scores after which what was earned counts half; None: never, as in Algorithm 3."""
    credit: Literal["above-mean", "all-scores"] = "above-mean"
    """What is earned: the scores that reach the mean of the round's highest, or every score, losses too."""
    members: Literal["mean", "min"] = "mean"
    """What a cluster counts for: what its members have earned on average, or the one with the least."""
    divide_by: Literal["selected", "all"] = "selected"
    """The sum of the selected is divided by their weight, or by that of all clusters (Algorithm 1)."""
    normalised: Literal["none", "gradient", "upload", "both"] = "none"
    """Which of the two vectors are brought to length 1 before they are multiplied."""
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of the past rounds' server gradients in the one that counts."""


CoordinateRule = Mean | Median | TrimmedMean | MeanAroundMedian | SignMajority
"""Rules that go coordinate by coordinate."""
DistanceRule = Krum | MultiKrum | Bulyan | GeometricMedian | CentredClipping | MinimumDiameter
"""Rules that look at distances between whole rows."""
ServerRule = FlTrust | ZenoPlusPlus | InnerProduct
"""Rules that need a gradient of data that the server holds itself."""
Rule = CoordinateRule | DistanceRule | ServerRule


class NormClipping(Section, tag="norm-clipping", frozen=True, kw_only=True):
    """Scale cluster means that are longer than ``radius`` down to it."""

    radius: PositiveReal
    """L2, parameters' own unit."""


class Bucketing(Section, tag="bucketing", frozen=True, kw_only=True):
    """Replace the cluster means by the means of random buckets of ``size``."""

    size: Positive


class NearestNeighbourMixing(Section, tag="nearest-neighbour-mixing", frozen=True, kw_only=True):
    """Replace each cluster mean by the mean of its c - ``byzantine`` nearest ones, itself included."""

    byzantine: NonNegative


class AdaptiveClipping(Section, tag="arc", frozen=True, kw_only=True):
    """Scale the longest cluster means down to the longest of the others (ARC)."""

    byzantine: NonNegative


PreAggregation = NormClipping | Bucketing | NearestNeighbourMixing | AdaptiveClipping


class Aggregation(Section, frozen=True, kw_only=True):
    """The rule on cluster means and what the scenario claims of it."""

    rule: Rule = Mean()
    pre_aggregation: tuple[PreAggregation, ...] = ()
    """What the cluster means go through, in this order, before the rule."""
    byzantine: NonNegative = 0
    """Byzantine parties that the scenario reckons with."""
    claim: Literal["none", "average-case", "worst-case"] = "none"
    """``worst-case`` is refused unless the rule survives every placement of the Byzantine parties."""
