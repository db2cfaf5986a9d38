"""Pre-aggregation by norm: clipping to a given radius, or to what most rows stay within (ARC)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from securefl.arrays import F64
from securefl.errors import UsageError
from securefl.robust.lengths import lengths
from securefl.robust.stack import Stack


def clip_norms(stack: Stack, radius: float) -> Stack:
    """``x_i min(1, radius / ||x_i||)`` for all rows.

    Bounds what a rule can be made to do, but does not change whom it follows: the breakdown point stays the
    rule's. ``noise_std`` stays as an upper bound.

    Cost: two passes, O(c d) time and memory (none where nothing is clipped).
    Source: Sun et al. 2019, "Can you really backdoor federated learning?" (arXiv 1911.07963), section 4.

    Raises:
        UsageError: ``radius`` is not positive.
    """
    if not radius > 0:
        raise UsageError(f"cannot clip to {radius}")
    return _clipped(stack, lengths(stack.means), radius)


def clip_adaptively(stack: Stack, byzantine: int) -> Stack:
    """Clip the k = floor(2 (f / c) (c - f)) longest rows, f = ``byzantine``, to the length of the next one.

    For f < c / 2 these are at least f rows, so that no Byzantine row stays longer than an honest one, while
    without any attack the direction of every row and the length of most stay as they are. The radius follows
    the updates, where a fixed one is too wide at the end of a training or too narrow at its start.

    Breakdown point: the rule's; up to f Byzantine rows are in addition no longer than the longest honest one.
    Cost: two passes, O(c d) time and memory.
    Source: Allouah et al. 2025, "Adaptive gradient clipping for robust federated learning" (arXiv
    2405.14432), algorithm 2.

    Raises:
        UsageError: ``byzantine`` is negative, or not 2 * byzantine < c.
    """
    clusters = stack.clusters
    if byzantine < 0 or clusters <= 2 * byzantine:
        raise UsageError(f"{clusters} clusters have no majority over {byzantine}")
    clipped = 2 * byzantine * (clusters - byzantine) // clusters
    norms = lengths(stack.means)
    return _clipped(stack, norms, float(np.sort(norms)[clusters - 1 - clipped]))


def _clipped(stack: Stack, norms: F64, radius: float) -> Stack:
    longer = norms > radius
    if not longer.any():
        return stack
    means = stack.means.copy()
    for index in np.flatnonzero(longer).tolist():
        # A length beyond float64 leaves nothing of its row.
        means[index] *= radius / norms[index]
    return replace(stack, means=means)
