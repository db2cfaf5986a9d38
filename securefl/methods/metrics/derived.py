"""Published numbers, from sums of metric words."""

import math
from collections.abc import Mapping

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.methods.metrics.column_spread import column_spread
from securefl.methods.metrics.metric_encoding import MetricWords, parts_of, unit_of

QUARTILES = {"q25": 0.25, "median": 0.5, "q75": 0.75}
OF_COLUMN = ("count", "missing", "mean", "std", "low", *QUARTILES, "high")
"""Numbers of a column, by suffix: samples with and without a value, moments, ends of nonempty bins, and
quartiles, linear within a bin. An unresolved standard deviation is 0."""


def names_of(evaluation: scenario.SiteEvaluation) -> dict[str, bool]:
    """Return the numbers of a scenario's metrics, with True if higher ones are better."""
    return {name: better for metric in evaluation.metrics for name, better in names_of_metric(metric).items()}


def numbers_of(words: MetricWords, read: F64) -> Mapping[str, float]:
    """Return the numbers from a sum of words in samples, f64 ``(w,)``, without those that have no samples."""
    found: dict[str, float] = {}
    samples = float(read[0])
    for metric, at in parts_of(words.evaluation):
        block = read[at]
        match metric.kind:
            case "mean":
                if samples > 0:
                    found[metric.name] = _of_mean(metric, float(block[0]) / samples * unit_of(metric))
            case "sum":
                found[metric.name] = float(block[0]) / words.evaluation.samples * unit_of(metric)
            case "histogram":
                found |= _of_histogram(metric, block, words.resolution)
            case "confusion":
                found |= _of_confusion(metric, block, words.resolution)
            case "classes":
                found |= _of_classes(metric, block, words.resolution)
            case "column":
                found |= _of_column(metric, samples, block, words)
    return found


def bounds_of(evaluation: scenario.SiteEvaluation, parties: int) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest value of each number, by name; of sums and counts for all parties."""
    found = dict[str, tuple[float, float]]()
    for metric in evaluation.metrics:
        for name in names_of_metric(metric):
            found[name] = _bounds(metric, name, float(evaluation.samples) * parties, parties)
    return found


def _bounds(metric: scenario.Metric, name: str, samples: float, parties: int) -> tuple[float, float]:
    if metric.kind == "sum":
        return min(metric.lower, 0.0) * parties, max(metric.upper, 0.0) * parties
    if metric.kind in {"confusion", "classes"} or name == f"{metric.name}.auc":
        return 0.0, 1.0
    if name in {f"{metric.name}.count", f"{metric.name}.missing"}:
        return 0.0, samples
    if name == f"{metric.name}.std":
        # Largest possible value: half of all values at each end.
        return 0.0, (metric.upper - metric.lower) / 2
    return (_root(metric.lower), _root(metric.upper)) if metric.root else (metric.lower, metric.upper)


def _root(value: float) -> float:
    return math.sqrt(max(value, 0.0))


def auc(negative: F64, positive: F64) -> float:
    """Return the area under the ROC curve of two nonempty histograms over the same bins, f64 ``(bins,)``.

    It is the probability that a sample of class 1 scores above one of class 0, ties by half (Hanley and
    McNeil 1982). Ties in a bin cause an error of at most half their share. Negative
    noisy counts stay: products of the independent noises are unbiased, and clipped counts would be too large.
    """
    below = np.cumsum(negative) - negative
    pairs = float(negative.sum() * positive.sum())
    return _share(float((positive * (below + negative / 2)).sum()) / pairs)


def names_of_metric(metric: scenario.Metric) -> dict[str, bool]:
    """Return the numbers of one metric, with True if higher ones are better."""
    match metric.kind:
        case "histogram":
            return {f"{metric.name}.auc": True} if metric.classes == 2 else {f"{metric.name}.median": True}
        case "confusion":
            recalls = {f"{metric.name}.recall.{c}": True for c in range(metric.classes)}
            return {f"{metric.name}.accuracy": True, f"{metric.name}.f1": True} | recalls
        case "classes":
            return {f"{metric.name}.{c}": True for c in range(metric.classes)}
        case "column":
            return {f"{metric.name}.{name}": True for name in OF_COLUMN}
        case _:
            return {metric.name: metric.better == "higher"}


def _of_mean(metric: scenario.Metric, mean: float) -> float:
    """Return the mean or its root, clipped to its range, which noise and rounding may leave."""
    inside = min(max(mean, metric.lower), metric.upper)
    return math.sqrt(inside) if metric.root else inside


def _of_histogram(metric: scenario.Metric, counts: F64, resolution: float) -> dict[str, float]:
    """Return the numbers of classes with more samples than ``resolution``, the error of a count."""
    if metric.classes == 2:
        negative, positive = counts.reshape(2, metric.bins)
        both = min(negative.sum(), positive.sum()) > resolution
        return {f"{metric.name}.auc": auc(negative, positive)} if both else {}
    some = counts.sum() > resolution
    return {f"{metric.name}.median": _quantile(metric, counts, 0.5)} if some else {}


def _of_classes(metric: scenario.Metric, counts: F64, resolution: float) -> dict[str, float]:
    total = float(counts.sum())
    shares = counts / total if total > resolution else counts[:0]
    return {f"{metric.name}.{c}": _share(float(share)) for c, share in enumerate(shares)}


def _of_column(metric: scenario.Metric, samples: float, block: F64, words: MetricWords) -> dict[str, float]:
    moments, counts = block[: scenario.MOMENTS], block[scenario.MOMENTS :]
    count = float(counts.sum())
    # Displayed counts are clipped; the ratios below use the unclipped ones.
    found = {"count": max(0.0, count), "missing": max(0.0, samples - count)}
    some = np.flatnonzero(counts > words.resolution)
    if len(some) and count > words.resolution:
        width, extent = (metric.upper - metric.lower) / metric.bins, metric.upper - metric.lower
        found |= {
            "mean": metric.lower + extent * min(max(float(moments[0]) / count, 0.0), 1.0),
            "std": extent * column_spread(words, block).std,
            "low": metric.lower + width * int(some[0]),
            "high": metric.lower + width * (int(some[-1]) + 1),
        }
        found |= {name: _quantile(metric, counts, share) for name, share in QUARTILES.items()}
    return {f"{metric.name}.{name}": found[name] for name in OF_COLUMN if name in found}


def _quantile(metric: scenario.Metric, counts: F64, share: float) -> float:
    """Return the value below which ``share`` of the samples lie, linear within its bin."""
    ends = cumulate(counts)
    return value_at(metric, ends, share * float(ends[-1]))


def cumulate(counts: F64) -> F64:
    """Return the number of samples below the ends of bins, f64 ``(bins + 1,)``, not decreasing.

    With noise the nearest non-decreasing numbers replace them.
    """
    ends = np.concatenate(([0.0], np.cumsum(counts)))
    if counts.min() < 0:
        from scipy import optimize  # noqa: PLC0415 - a process without noise need not wait for it

        ends[1:-1] = np.clip(optimize.isotonic_regression(ends[1:-1]).x, 0.0, ends[-1])
    return ends


def value_at(metric: scenario.Metric, ends: F64, samples: float) -> float:
    """Return the value of a metric below which ``samples`` samples lie, linear within its bin.

    ``ends`` are those of :func:`cumulate`. ``samples`` of at most 0, or more than all, give an end of the
    range.
    """
    if samples <= 0:
        return metric.lower
    if samples > ends[-1]:
        return metric.upper
    at = int(np.searchsorted(ends, samples, side="left")) - 1
    inside = (samples - ends[at]) / (ends[at + 1] - ends[at])
    return metric.lower + (metric.upper - metric.lower) / metric.bins * (at + float(inside))


def _share(ratio: float) -> float:
    """Return a share of samples, clipped to its range, which noise may leave."""
    return min(max(ratio, 0.0), 1.0)


def _of_confusion(metric: scenario.Metric, counts: F64, resolution: float) -> dict[str, float]:
    """Return the numbers of classes with more samples than ``resolution``, the error of a count."""
    table = counts.reshape(metric.classes, metric.classes)
    total, hits = float(table.sum()), np.diagonal(table)
    if total <= resolution:
        return {}
    true, predicted = table.sum(axis=1), table.sum(axis=0)
    recalls = {
        f"{metric.name}.recall.{c}": _share(float(hits[c] / true[c]))
        for c in range(metric.classes)
        if true[c] > resolution
    }
    some = true + predicted > resolution
    if not some.any():
        return {}
    scores = 2 * hits[some] / (true + predicted)[some]
    # With two classes, class 1 is the positive one. Scores of classes with noise may be negative before their
    # mean: clipped at 0 all of them would be too large.
    f1 = scores[-1] if metric.classes == 2 and some[1] else scores.mean()
    accuracy = _share(float(hits.sum()) / total)
    return {f"{metric.name}.accuracy": accuracy, f"{metric.name}.f1": _share(float(f1))} | recalls
