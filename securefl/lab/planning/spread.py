"""How far the aggregate strays: by which parties a rule picks, and by privacy noise."""

from __future__ import annotations

from securefl.lab.planning.demand import Demand
from securefl.lab.planning.design import Design, kept_of
from securefl.methods.clustering import exact_variance_factor


def sampling_variance(demand: Demand, design: Design) -> float:
    """Variance of the aggregate around the honest mean, over that of one honest update.

    SHARE (Velicheti et al. 2021), Theorems 3 and 7, for a rule that picks b clean clusters whatever they
    contain: (n - q - b m) / (R (n - q - 1) b m). It is a figure to compare plans by: a rule that looks at the
    clusters picks otherwise, and the medians, which have b = 1 here, do better on average.
    """
    clusters, benign = demand.parties // design.shape.size, demand.parties - demand.liars
    kept = kept_of(design.rule, clusters)
    if kept == clusters and not demand.liars:
        return 0.0
    picked = min(kept, benign // design.shape.size)
    if benign < 2 or picked < 1:
        return 1.0
    factor = exact_variance_factor(
        demand.parties, demand.liars, design.shape.size, picked, design.shape.reclusterings
    )
    return factor / (picked * design.shape.size)


def noise_deviation(demand: Demand, design: Design, multiplier: float) -> float:
    """Standard deviation of the noise in a coordinate of the aggregate, over the sensitivity of one update.

    Of b picked clusters of m members without dropouts, in which each member's noise has multiplier^2 / h of
    variance left (dropout-exact: / (m - f), whatever h is). Noise that is added once averages over
    reclusterings down to that of the mean of all parties, at best.
    """
    clusters, m = demand.parties // design.shape.size, design.shape.size
    picked = kept_of(design.rule, clusters) * m
    sharers = m - design.colluders if design.noise == "dropout-exact" else design.sharers
    one = multiplier**2 / sharers
    if design.shape.openings == 1:
        return float((one / (picked * design.shape.works)) ** 0.5)
    floor = 1 / demand.parties
    return float((one * (floor + (1 / picked - floor) / design.shape.openings)) ** 0.5)
