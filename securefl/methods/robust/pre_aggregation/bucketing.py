"""Bucketing."""

import math
from dataclasses import replace

import numpy as np

from securefl import scenario
from securefl.base import crypto
from securefl.base.errors import UsageError
from securefl.base.stack import ClusterMeans, Places
from securefl.methods.robust import products


class Bucketing(scenario.PreAggregation, tag="bucketing", frozen=True, kw_only=True):
    """Weighted means of random buckets of ``size`` cluster means.

    Example:
        >>> Bucketing(size=2)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]], seed=1)
        array([[  2. ,   3. ],
               [ 51. , -23.5]])
    """

    size: scenario.Positive
    """Rows per bucket, drawn from the round's certified seed; ceil(c / ``size``) rows remain."""

    def rows_needed(self, rows: int) -> int:
        return (rows - 1) * self.size + 1

    def rows_left(self, rows: int) -> int:
        return -(-rows // self.size)

    def prepare(self, stack: ClusterMeans, seed: bytes) -> tuple[ClusterMeans, Places | None]:
        return bucket(stack, self.size, seed)


def bucket(stack: ClusterMeans, size: int, seed: bytes) -> tuple[ClusterMeans, Places]:
    """Return weighted means of ``ceil(c / size)`` random buckets of ``size`` clusters.

    The last bucket may be smaller. A bucket's weight and survivors are the sums over its clusters. If parties
    hold different data, buckets are more alike than clusters, and robust rules lose less. ``seed`` is the
    certified seed of the round; all orders are equally likely.

    Breakdown point: that of the rule for ceil(c / size) rows, since a Byzantine cluster spoils one bucket.
    Cost: O(c d) time; O(d c / size) memory.
    Source: Karimireddy, He, Jaggi 2022, "Byzantine-robust learning on heterogeneous datasets via bucketing"
    (arXiv 2006.09365), algorithm 1.

    Returns:
        The stack of buckets, and by cluster the row of its bucket.

    Raises:
        UsageError: ``size`` is not positive, or ``seed`` is shorter than 16 bytes.
    """
    if size < 1 or len(seed) < 16:
        raise UsageError(
            f"size of a bucket must be at least 1 and seed 16 bytes or more; found size {size},"
            f" {len(seed)} bytes"
        )
    order = sorted(range(stack.clusters), key=lambda cluster: crypto.digest("bucket", seed, cluster))
    buckets = [np.array(sorted(order[at : at + size])) for at in range(0, stack.clusters, size)]
    place = np.empty(stack.clusters, dtype=np.intp)
    means, noise = np.empty((len(buckets), stack.dimension)), 0.0
    for row, members in enumerate(buckets):
        place[members] = row
        shares = stack.weights[members] / products.total(stack.weights[members])
        means[row] = products.combine(shares, stack.means[members])
        noise = max(noise, math.sqrt(products.total(shares * shares)))
    mixed = replace(
        stack,
        means=means,
        weights=np.array([products.total(stack.weights[members]) for members in buckets]),
        survivors=np.array([stack.survivors[members].sum() for members in buckets], dtype=np.int64),
        noise_std=stack.noise_std * noise,
    )
    return mixed, place
