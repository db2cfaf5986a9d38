"""Bucketing: means of a few random clusters each."""

import math
from dataclasses import replace

import numpy as np

from securefl import scenario
from securefl.base import crypto
from securefl.base.errors import UsageError
from securefl.base.stack import ClusterMeans, Places
from securefl.methods.robust import products


class Bucketing(scenario.PreAggregation, tag="bucketing", frozen=True, kw_only=True):
    """Replace the cluster means by the means of random buckets of ``size``.

    Weighted means of ceil(c / size) random sets of ``size`` rows.

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
    """Weighted means of ``ceil(c / size)`` buckets of ``size`` clusters, the last one of what is left.

    A bucket's weight and survivors are the sums of its clusters'. Buckets are more alike than clusters when
    parties hold different data, so that rules which take the unusual for malicious lose less.

    Which clusters share a bucket is drawn from ``seed``: the certified seed of the round, unpredictable until
    it is known and the same for everybody afterwards. All orders are equally likely.

    Breakdown point: a Byzantine cluster spoils one bucket, so it is that of the rule for ceil(c / size) rows.
    Cost: one pass, O(c d) time; O(d c / size) memory.
    Source: Karimireddy, He, Jaggi 2022, "Byzantine-robust learning on heterogeneous datasets via bucketing"
    (arXiv 2006.09365), algorithm 1.

    Returns:
        The stack of buckets, and by cluster the row of its bucket.

    Raises:
        UsageError: ``size`` is not positive, or ``seed`` has less than 16 bytes.
    """
    if size < 1 or len(seed) < 16:
        raise UsageError(f"cannot draw buckets of {size} from a seed of {len(seed)} bytes")
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
