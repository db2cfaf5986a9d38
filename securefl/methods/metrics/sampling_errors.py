"""Standard errors of one site's metrics by its finite number of samples, where counts determine them."""

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.methods.metrics.metric_encoding import MetricWords, parts_of

_SCALE = 40
"""2^-40 samples resolve a count: no noise, and one party."""
_MOST_SAMPLES = 2**40


def exact_words(evaluation: scenario.SiteEvaluation) -> MetricWords:
    """Return the words of one site's own metrics: no noise, and every sample counts in full."""
    whole = msgspec.structs.replace(evaluation, samples=_MOST_SAMPLES)
    return MetricWords(whole, _SCALE, table=None, slack=0.0, parties=1)


def sampling_errors(evaluation: scenario.SiteEvaluation, words: F64) -> Mapping[str, float]:
    """Return standard errors of accuracy, recalls, class shares and AUC by name; others are not known.

    Shares of counts are binomial: sqrt(p (1 - p) / n). The error of an AUC follows DeLong, DeLong and
    Clarke-Pearson 1988, from the counts of its bins.

    Args:
        evaluation: declared metrics.
        words: of one site, in samples without noise, f64 ``(w,)``.
    """
    found: dict[str, float] = {}
    for metric, at in parts_of(evaluation):
        counts = words[at]
        match metric.kind:
            case "histogram" if metric.classes == 2:
                error = _auc_error(*counts.reshape(2, metric.bins))
                found |= {} if error is None else {f"{metric.name}.auc": error}
            case "confusion":
                table = counts.reshape(metric.classes, metric.classes)
                hits, true = np.diagonal(table), table.sum(axis=1)
                shares = {"accuracy": (float(hits.sum()), float(true.sum()))}
                shares |= {f"recall.{c}": (float(hits[c]), float(true[c])) for c in range(metric.classes)}
                found |= _binomial(metric.name, shares)
            case "classes":
                total = float(counts.sum())
                found |= _binomial(metric.name, {str(c): (float(n), total) for c, n in enumerate(counts)})
            case _:
                pass
    return found


def _binomial(name: str, shares: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    return {
        f"{name}.{part}": math.sqrt(hits / total * (1 - hits / total) / total)
        for part, (hits, total) in shares.items()
        if total > 0
    }


def _auc_error(negative: F64, positive: F64) -> float | None:
    """Return DeLong's standard error; None with fewer than two samples of a class."""
    low, high = float(negative.sum()), float(positive.sum())
    if min(low, high) < 2:
        return None
    below = (np.cumsum(negative) - negative / 2) / low
    above = 1 - (np.cumsum(positive) - positive / 2) / high
    variances = (_variance(below, positive) / high, _variance(above, negative) / low)
    return math.sqrt(math.fsum(variances))


def _variance(values: F64, counts: F64) -> float:
    total = float(counts.sum())
    mean = float((counts * values).sum()) / total
    return float((counts * (values - mean) ** 2).sum()) / (total - 1)
