"""Metrics of a round's model: all clusters pooled, their median, and how far they lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import I64
from securefl.methods.metrics.derived import names_of, numbers_of
from securefl.methods.metrics.words import MetricWords


@dataclass(frozen=True, slots=True)
class Measured:
    """One number of the model that a round began with."""

    name: str
    value: float
    """What stopping and expectations go by: ``pooled`` or ``median``, as ``evaluation.report`` says."""
    pooled: float
    """Of all samples together."""
    median: float
    """Over clusters; with an even number of them the mean of the two in the middle. Where b of c sums hold
    liars, it lies between the honest sums' order statistics that are b / 2 places from their middle."""
    low: float
    """Least of a cluster."""
    high: float
    clusters: int
    """Sums that it comes from."""
    higher: bool
    """Whether more is better."""


@dataclass(frozen=True, slots=True)
class Doubted:
    """A sum of metrics that is impossible, and counts for nothing. The update in the same sum counts."""

    cluster: int
    reason: str


def measure(
    words: MetricWords, sums: Sequence[tuple[int, I64, int]], *, median: bool
) -> tuple[tuple[Measured, ...], tuple[Doubted, ...]]:
    """Pool the metrics of a round.

    Args:
        words: of the run.
        sums: number, words i64 ``(w,)`` and members of each cluster that was opened.
        median: whether the value is the median over clusters.

    Returns:
        Numbers that there are samples for, in the order of the scenario, and sums that are impossible.
    """
    read = [(cluster, words.read(total), members) for cluster, total, members in sums]
    doubts = [(cluster, words.doubt(values, members)) for cluster, values, members in read]
    doubted = tuple(Doubted(cluster, reason) for cluster, reason in doubts if reason)
    wrong = {one.cluster for one in doubted}
    good = [values for cluster, values, _ in read if cluster not in wrong]
    if not good:
        return (), doubted
    pooled, each = numbers_of(words, np.sum(good, axis=0)), [numbers_of(words, one) for one in good]
    found = []
    for name, higher in names_of(words.evaluation).items():
        by_cluster = [one[name] for one in each if name in one]
        if name not in pooled or not by_cluster:
            continue
        middle = float(np.median(by_cluster))
        found.append(
            Measured(
                name,
                middle if median else pooled[name],
                pooled[name],
                middle,
                min(by_cluster),
                max(by_cluster),
                len(by_cluster),
                higher,
            )
        )
    return tuple(found), doubted
