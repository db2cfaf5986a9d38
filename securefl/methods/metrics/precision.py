"""Precision of the numbers of metrics: standard deviations by noise, and bounds of rounding.

Noise is independent in each word of a sum, of a standard deviation s that follows from its law and the number
of members. A number f of words w has, to first order (delta method),

    deviation = s |grad f|_2,        rounding <= r |grad f|_1,

with r the largest rounding error of a word, and gradients at the words with noise, which makes deviations
larger. Where that is not enough, a bound replaces them:

- a ratio whose denominator is below 4 of its own deviations may be anything in the number's range;
- a root of a mean near 0 is off by at most the root of the mean's error;
- a quantile is off by its largest shift when the cumulated counts move by 1, 2 and 3 of their deviations,
  over 1, 2 and 3 (gaps of the values);
- the lowest and the highest bin with samples are off by the rest of the range beyond them.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.methods.metrics import derived
from securefl.methods.metrics.column_spread import CERTAIN, DOUBLE, column_spread
from securefl.methods.metrics.metric_encoding import MetricWords, parts_of, unit_of

_STEPS = (1.0, 2.0, 3.0)


class Precision(NamedTuple):
    """Errors of one number, in its unit."""

    deviation: float
    """Standard deviation by noise, or a bound on it; at most the number's range. 0 without noise."""
    rounding: float
    """Bound on the error by rounding, and for a column's ends and quartiles by the width of a bin."""


class _Words(NamedTuple):
    """Errors of each word of one sum, in samples."""

    deviation: float
    rounding: float

    def linear(self, gradient: F64, count: float = math.inf, of: int = 0) -> Precision:
        """Return the errors for this gradient; ``count`` is the denominator, a sum of ``of`` words."""
        if count <= CERTAIN * self.deviation * math.sqrt(of):
            return Precision(math.inf, math.inf)
        length, total = math.sqrt(float(np.square(gradient).sum())), float(np.abs(gradient).sum())
        return Precision(self.deviation * length, self.rounding * total)


def precisions_of(
    words: MetricWords, read: F64, members: int, numbers: Mapping[str, float]
) -> dict[str, Precision]:
    """Return the precision of each of ``numbers``, the result of :func:`derived.numbers_of`.

    ``read`` is a sum of the words of ``members`` parties in samples, f64 ``(w,)``.
    """
    each = _Words(words.deviation(members), words.rounding(members))
    bounds = derived.bounds_of(words.evaluation, words.parties)
    found = dict[str, Precision]()
    for metric, at in parts_of(words.evaluation):
        if not any(name in numbers for name in derived.names_of_metric(metric)):
            continue
        for end, one in _of_metric(metric, words, each, float(read[0]), read[at]):
            name = ".".join(filter(None, (metric.name, end)))
            low, high = bounds[name]
            # Sums and counts are shown unclipped, the others within their range.
            most = math.inf if metric.kind == "sum" or end in {"count", "missing"} else high - low
            deviation = min(one.deviation, most) if each.deviation else 0.0
            found[name] = Precision(deviation, min(one.rounding, most))
    return {name: found[name] for name in numbers}


def _of_metric(
    metric: scenario.Metric, words: MetricWords, each: _Words, samples: float, block: F64
) -> Iterator[tuple[str, Precision]]:
    """Yield the errors of the numbers of a metric, by suffix of its name."""
    match metric.kind:
        case "mean":
            yield "", _of_mean(metric, each, samples, float(block[0]) / samples)
        case "sum":
            yield "", each.linear(np.array([unit_of(metric) / words.evaluation.samples]))
        case "histogram" if metric.classes == 2:
            yield "auc", _of_auc(each, *block.reshape(2, metric.bins))
        case "histogram":
            yield "median", _of_quantile(metric, each, block, 0.5)
        case "confusion":
            table = block.reshape(metric.classes, metric.classes)
            yield from _of_confusion(each, table, words.resolution)
        case "classes":
            yield from ((str(c), _of_share(each, block, c)) for c in range(metric.classes))
        case "column":
            yield from _of_column(metric, words, each, block)


def _of_mean(metric: scenario.Metric, each: _Words, samples: float, share: float) -> Precision:
    unit = unit_of(metric)
    found = each.linear(np.array([1.0, share]) * unit / samples, samples, 1)
    if not metric.root:
        return found
    mean = min(max(share * unit, metric.lower), metric.upper)
    return Precision(_root_error(mean, found.deviation), _root_error(mean, found.rounding))


def _root_error(mean: float, error: float) -> float:
    """Return the error of a root: the squared difference of two roots is at most that of their squares."""
    return min(error / (2 * math.sqrt(mean)) if mean > 0 else math.inf, math.sqrt(error))


def _of_auc(each: _Words, negative: F64, positive: F64) -> Precision:
    zeros, ones = float(negative.sum()), float(positive.sum())
    below = (np.cumsum(negative) - negative / 2) / zeros
    above = (ones - np.cumsum(positive) + positive / 2) / ones
    auc = float((positive * below).sum()) / ones
    gradient = np.concatenate(((above - auc) / zeros, (below - auc) / ones))
    return each.linear(gradient, min(zeros, ones), len(negative))


def _of_share(each: _Words, counts: F64, at: int) -> Precision:
    total = float(counts.sum())
    gradient = np.full(len(counts), -counts[at] / total)
    gradient[at] += 1.0
    return each.linear(gradient / total, total, len(counts))


def _of_confusion(each: _Words, table: F64, resolution: float) -> Iterator[tuple[str, Precision]]:
    """Yield the errors of classes with more samples than ``resolution``, the error of a count."""
    classes, total, hits = len(table), float(table.sum()), np.diagonal(table)
    accuracy = float(hits.sum()) / total
    yield "accuracy", each.linear((np.eye(classes) - accuracy) / total, total, classes**2)
    true, both = table.sum(axis=1), table.sum(axis=1) + table.sum(axis=0)
    for c in np.flatnonzero(true > resolution):
        gradient = (np.eye(classes)[c] - hits[c] / true[c]) / true[c]
        yield f"recall.{c}", each.linear(gradient, float(true[c]), classes)
    some = np.flatnonzero(both > resolution)
    if not len(some):
        return
    asked = some[-1:] if classes == 2 and both[1] > resolution else some
    gradient = np.zeros((classes, classes))
    for c in asked:
        # Gradient of 2 h / (true + predicted), in which each of the hits h counts twice.
        score = 2 * hits[c] / both[c]
        gradient[c, :] -= score / both[c]
        gradient[:, c] -= score / both[c]
        gradient[c, c] += 2 / both[c]
    # A row and a column of words, which share one.
    least = float(both[asked].min())
    yield "f1", each.linear(gradient / len(asked), least, 2 * classes + 2)


def _of_quantile(metric: scenario.Metric, each: _Words, counts: F64, share: float) -> Precision:
    ends = derived.cumulate(counts)
    total, bins = float(ends[-1]), len(counts)
    if total <= CERTAIN * each.deviation * math.sqrt(bins):
        return Precision(math.inf, math.inf)
    wanted = share * total
    below = int(np.searchsorted(ends, wanted, side="left"))
    moved = math.sqrt(below * (1 - share) ** 2 + (bins - below) * share**2)
    lost = below * (1 - share) + (bins - below) * share

    def reach(samples: float) -> float:
        value = derived.value_at(metric, ends, wanted)
        low, high = (derived.value_at(metric, ends, wanted + sign * samples) for sign in (-1, 1))
        return max(high - value, value - low)

    deviations = [reach(step * each.deviation * moved) / step for step in _STEPS if each.deviation]
    return Precision(max(deviations, default=0.0), reach(each.rounding * lost))


def _of_column(
    metric: scenario.Metric, words: MetricWords, each: _Words, block: F64
) -> Iterator[tuple[str, Precision]]:
    moments, counts = block[: scenario.MOMENTS], block[scenario.MOMENTS :]
    bins, count, extent = metric.bins, float(counts.sum()), metric.upper - metric.lower
    yield "count", each.linear(np.ones(bins))
    yield "missing", each.linear(np.ones(bins + 1))
    some = np.flatnonzero(counts > words.resolution)
    if not len(some) or count <= words.resolution:
        return
    mean = float(moments[0]) / count
    gradient = np.concatenate(([1.0], np.full(bins, -mean))) * extent / count
    # Error of the last addition, and of sums at sites.
    double = 2.0**-52 * max(abs(metric.lower), abs(metric.upper)) + DOUBLE * extent
    found = each.linear(gradient, count, bins)
    yield "mean", Precision(found.deviation, found.rounding + double)
    spread = column_spread(words, block)
    yield "std", Precision(extent * spread.noise, extent * spread.rounding)
    width = extent / bins
    yield "low", Precision(width * int(some[0]), width + double)
    yield "high", Precision(width * (bins - 1 - int(some[-1])), width + double)
    for name, share in derived.QUARTILES.items():
        found = _of_quantile(metric, each, counts, share)
        yield name, Precision(found.deviation, found.rounding + width + double)
