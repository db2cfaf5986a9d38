"""Numbers that people want to see, out of sums of metric words.

AUC from score histograms: the probability that a sample of class 1 scores above one of class 0, ties by half
(Hanley and McNeil 1982); samples in one bin are tied, so that it is off by at most half the share of pairs
that are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from securefl.base.arrays import F64
from securefl.methods.metrics.words import MetricWords, parts_of, unit_of
from securefl.scenario import Metric, SiteEvaluation


def names_of(evaluation: SiteEvaluation) -> dict[str, bool]:
    """The numbers that a scenario's metrics give, and whether higher ones are better."""
    return {name: better for metric in evaluation.metrics for name, better in _names(metric).items()}


def numbers_of(words: MetricWords, read: F64) -> Mapping[str, float]:
    """Those numbers, from a sum of words in samples, f64 ``(w,)``; what has no samples is left out."""
    found: dict[str, float] = {}
    samples = float(read[0])
    for metric, at in parts_of(words.evaluation):
        block = read[at]
        match metric.kind:
            case "mean":
                if samples > 0:
                    found[metric.name] = float(
                        np.clip(block[0] / samples * unit_of(metric), metric.lower, metric.upper)
                    )
            case "sum":
                found[metric.name] = float(block[0]) / words.evaluation.samples * unit_of(metric)
            case "histogram":
                found |= _of_histogram(metric, np.maximum(block, 0.0))
            case "confusion":
                found |= _of_confusion(metric, np.maximum(block, 0.0))
    return found


def auc(negative: F64, positive: F64) -> float:
    """Area under the ROC curve of two histograms over the same bins, f64 ``(bins,)``, neither empty."""
    below = np.cumsum(negative) - negative
    pairs = float(negative.sum() * positive.sum())
    return float((positive * (below + negative / 2)).sum()) / pairs


def _names(metric: Metric) -> dict[str, bool]:
    match metric.kind:
        case "histogram":
            return {f"{metric.name}.auc": True} if metric.classes == 2 else {f"{metric.name}.median": True}
        case "confusion":
            recalls = {f"{metric.name}.recall.{c}": True for c in range(metric.classes)}
            return {f"{metric.name}.accuracy": True, f"{metric.name}.f1": True} | recalls
        case _:
            return {metric.name: metric.better == "higher"}


def _of_histogram(metric: Metric, counts: F64) -> dict[str, float]:
    if metric.classes == 2:
        negative, positive = counts.reshape(2, metric.bins)
        both = negative.sum() > 0 and positive.sum() > 0
        return {f"{metric.name}.auc": auc(negative, positive)} if both else {}
    total = counts.sum()
    if total <= 0:
        return {}
    # Linear within the bin that holds the middle.
    ends = np.concatenate(([0.0], np.cumsum(counts)))
    width = (metric.upper - metric.lower) / metric.bins
    at = int(np.searchsorted(ends, total / 2, side="left")) - 1
    inside = (total / 2 - ends[at]) / counts[at]
    return {f"{metric.name}.median": metric.lower + width * (at + float(inside))}


def _of_confusion(metric: Metric, counts: F64) -> dict[str, float]:
    table = counts.reshape(metric.classes, metric.classes)
    total, hits = float(table.sum()), np.diagonal(table)
    if total <= 0:
        return {}
    true, predicted = table.sum(axis=1), table.sum(axis=0)
    recalls = {
        f"{metric.name}.recall.{c}": float(hits[c] / true[c]) for c in range(metric.classes) if true[c] > 0
    }
    some = true + predicted > 0
    scores = 2 * hits[some] / (true + predicted)[some]
    # Of two classes, 1 is the one that is looked for.
    f1 = 2 * hits[1] / (true + predicted)[1] if metric.classes == 2 and some[1] else scores.mean()
    return {f"{metric.name}.accuracy": float(hits.sum()) / total, f"{metric.name}.f1": float(f1)} | recalls
