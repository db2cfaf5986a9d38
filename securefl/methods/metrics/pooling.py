"""Metrics of a round's model: pooled over all clusters, their median, and their range."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import F64, I64
from securefl.base.sums import exact_sum
from securefl.methods.metrics import derived
from securefl.methods.metrics.metric_encoding import MetricWords
from securefl.methods.metrics.precision import precisions_of


@dataclass(frozen=True, slots=True)
class Measured:
    """One number of the model at the start of a round."""

    name: str
    value: float
    """Value for stopping and expectations: ``pooled`` or ``median``, by ``evaluation.report``."""
    pooled: float
    """Over all samples together."""
    median: float
    """Median over clusters. If b of c sums contain false metrics, it lies between the honest sums' order
    statistics that are b / 2 places from their middle."""
    low: float
    """Smallest value of a cluster."""
    high: float
    clusters: int
    """Number of sums."""
    higher: bool
    deviation: float = 0.0
    """Standard deviation of ``value`` by noise, or a bound on it; 0 without noise."""
    rounding: float = 0.0
    """Bound on the error of ``value`` by rounding to words, and by bins for ends and quartiles of columns."""


@dataclass(frozen=True, slots=True)
class Doubted:
    """An impossible sum of metrics, which does not count. The update in the same sum counts."""

    cluster: int
    reason: str


def measure(
    words: MetricWords, sums: Sequence[tuple[int, I64, int]], *, median: bool
) -> tuple[tuple[Measured, ...], tuple[Doubted, ...]]:
    """Return a round's numbers with samples, in the order of the scenario, and impossible sums.

    Args:
        words: of the run.
        sums: number, words i64 ``(w,)`` and members of each opened cluster.
        median: True if the value is the median over clusters.
    """
    read = [(cluster, words.read(total), members) for cluster, total, members in sums]
    doubts = [(cluster, words.doubt(values, members)) for cluster, values, members in read]
    doubted = tuple(Doubted(cluster, reason) for cluster, reason in doubts if reason)
    wrong = {one.cluster for one in doubted}
    good = [(values, members) for cluster, values, members in read if cluster not in wrong]
    if not good:
        return (), doubted
    pooled = _Numbers(words, np.sum([values for values, _ in good], axis=0), exact_sum(m for _, m in good))
    each = [_Numbers(words, *one) for one in good]
    found = []
    for name, higher in derived.names_of(words.evaluation).items():
        clusters = [one for one in each if name in one.values]
        if name not in pooled.values or not clusters:
            continue
        by_cluster = np.array([one.values[name] for one in clusters])
        middle, whole = float(np.median(by_cluster)), pooled.precisions[name]
        errors = np.array([one.precisions[name] for one in clusters])
        found.append(
            Measured(
                name,
                middle if median else pooled.values[name],
                pooled.values[name],
                middle,
                float(by_cluster.min()),
                float(by_cluster.max()),
                len(clusters),
                higher,
                *((_reach(by_cluster, one) for one in errors.T) if median else whole),
            )
        )
    return tuple(found), doubted


class _Numbers:
    """Metric values computed from one sum, and the error of each by noise and by rounding."""

    def __init__(self, words: MetricWords, read: F64, members: int) -> None:
        self.values = derived.numbers_of(words, read)
        self.precisions = precisions_of(words, read, members, self.values)


def _reach(values: F64, errors: F64) -> float:
    """Return how far the median moves if all values increase, or all decrease, by their errors.

    The median is monotone, so no errors of these magnitudes move it further. With independent Gaussian noise
    its variance is at most the largest one of the values (Poincare's inequality: its gradient has at most
    length 1).
    """
    middle = np.median(values)
    return float(max(np.median(values + errors) - middle, middle - np.median(values - errors)))
