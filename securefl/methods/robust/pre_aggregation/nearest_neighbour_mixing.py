"""Nearest-neighbour mixing: every row becomes the mean of those nearest to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import Places, Stack
from securefl.methods.robust.distances import squared_distances
from securefl.scenario import NonNegative, PreAggregation


class NearestNeighbourMixing(PreAggregation, tag="nearest-neighbour-mixing", frozen=True, kw_only=True):
    """Replace each cluster mean by the mean of its c - ``byzantine`` nearest ones, itself included."""

    byzantine: NonNegative

    def rows_needed(self, rows: int) -> int:
        return max(rows, 2 * self.byzantine + 1)

    def withstands(self, rows: int) -> int:
        return min(rows, self.byzantine)

    def prepare(self, stack: Stack, seed: bytes) -> tuple[Stack, Places | None]:
        return mix_nearest(stack, self.byzantine), None


def mix_nearest(stack: Stack, byzantine: int) -> Stack:
    """Replace each row by the weighted mean of its c - ``byzantine`` nearest rows, itself included.

    Nearness goes by count. Rows equally far at the cut share the remaining places evenly, so the order of the
    clusters does not matter. Weights and survivors stay; ``noise_std`` is that of the noisiest mixture.

    Breakdown point: ``byzantine`` rows, and no more than the rule's. An honest row then has only rows within
    the honest diameter in its neighbourhood, so that honest rows come closer together and stay honest; with
    it, any rule that is robust at all has an error of the optimal order.
    Cost: one Gram matrix and one product (c, c) x (c, d), O(c^2 d) time; O(c d + c^2) memory.
    Source: Allouah et al. 2023, "Fixing by mixing: a recipe for optimal Byzantine ML under heterogeneity"
    (arXiv 2302.01772), algorithm 2.

    Raises:
        UsageError: ``byzantine`` is negative, or not 2 * byzantine < c.
    """
    clusters = stack.clusters
    if byzantine < 0 or clusters <= 2 * byzantine:
        raise UsageError(f"{clusters} clusters have no majority over {byzantine}")
    shares = _places(squared_distances(stack.means), clusters - byzantine) * stack.weights
    shares /= shares.sum(axis=1, keepdims=True)
    noise = float(np.linalg.norm(shares, axis=1).max())
    return replace(stack, means=shares @ stack.means, noise_std=stack.noise_std * noise)


def _places(squared: F64, keep: int) -> F64:
    """By row, which rows are among its ``keep`` nearest; a fraction where several compete for the last."""
    cut = np.sort(squared, axis=1)[:, keep - 1 : keep]
    nearer, at_cut = squared < cut, squared == cut
    left = keep - nearer.sum(axis=1, keepdims=True)
    places: F64 = nearer + at_cut * (left / at_cut.sum(axis=1, keepdims=True))
    return places
