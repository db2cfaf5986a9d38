"""The weighted mean: no robustness, and the reference for all rules that claim some."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from securefl.base.stack import Aggregate, Stack, everyone
from securefl.scenario import Rule


class Mean(Rule, tag="mean", frozen=True, kw_only=True):
    """Weighted mean of the cluster means: with no faults equal to FedAvg."""

    by_coordinate: ClassVar[bool] = True

    def withstands(self, clusters: int) -> int:
        return 0

    def aggregate(self, stack: Stack) -> Aggregate:
        return weighted_mean(stack)


def weighted_mean(stack: Stack) -> Aggregate:
    """``sum_i w_i x_i / sum_i w_i``: with no faults this is FedAvg over all survivors.

    The bits depend on the order of the clusters only. ``kept``: all clusters.

    Breakdown point: 0; one row moves the result anywhere.
    Cost: O(c d) time, O(d) memory.
    Source: McMahan et al. 2017 (arXiv 1602.05629), algorithm 1.
    """
    # einsum without optimisation adds in a fixed order; that of a BLAS product depends on the threads.
    total = np.einsum("i,ij->j", stack.weights, stack.means, optimize=False)
    return Aggregate(total / stack.weights.sum(), everyone(stack))
