"""Site that computes statistics of its columns, and trains nothing (docs/statistics.md)."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl import scenario
from securefl.base import narrowing
from securefl.base.arrays import F64
from securefl.base.errors import ConfigError
from securefl.training.sites.load import SiteMaker
from securefl.training.sites.site import Arrays, Delta, Fitted, Judged, RoundContext
from securefl.training.sites.tables import ColumnCounts, class_counts, column_counts, column_table

MANY = 0.01
"""Largest share of a column outside its declared range without a report."""
_PARAMETER = "statistics"


def columns_of(maker: SiteMaker, evaluation: scenario.SiteEvaluation) -> SiteMaker:
    """Return a maker of sites that report statistics of the columns of the sites of ``maker``."""

    def make(party: str) -> ColumnSite:
        return ColumnSite(maker(party), evaluation)

    make.__module__, make.__qualname__ = maker.__module__, getattr(maker, "__qualname__", repr(maker))
    return make


class ColumnSite:
    """Proxy of a site; counts its ``columns()`` once, in the constructor.

    ``site.columns()`` returns numbers or classes by name; the metrics of ``evaluation`` are of kind
    ``column`` and ``classes``.

    Raises:
        ConfigError: the columns are missing or differ from the declared ones.
    """

    keeps_nothing = True
    column_counts: Mapping[str, ColumnCounts]
    """Values of each column that are missing or outside its range; they stay at the site."""

    def __init__(self, site: Any, evaluation: scenario.SiteEvaluation) -> None:
        if not hasattr(site, "columns"):
            remedy = "add one that returns arrays by name (docs/statistics.md)"
            raise ConfigError("--site", "the site has no method columns()", remedy)
        found = site.columns()
        wrong = [line for line, serious in differences(found, evaluation) if serious]
        if wrong:
            raise ConfigError("--site", "; ".join(wrong), "make the columns those that [statistics] declares")
        self._tables = {one.name: _table(found[one.name], one) for one in evaluation.metrics}
        self.column_counts = {
            one.name: column_counts(_numbers(found[one.name]), one.lower, one.upper)
            for one in evaluation.metrics
            if one.kind == "column"
        }
        self.samples = _length(found, evaluation)

    def parameters(self) -> Arrays:
        """Return one number, which is not trained."""
        return {_PARAMETER: np.zeros(1, np.float32)}

    def fit(self, _parameters: Arrays, _context: RoundContext) -> Fitted:
        """Change nothing."""
        return Delta({_PARAMETER: np.zeros(1, np.float32)}), self.samples, {}

    def evaluate(self, _parameters: Arrays, _context: RoundContext) -> Judged:
        """Return the tables of all columns, for any model."""
        return self.samples, self._tables


def differences(
    columns: Mapping[str, Any], evaluation: scenario.SiteEvaluation
) -> Iterator[tuple[str, bool]]:
    """Yield differences of a site's columns from the declared ones: a line, and True for an error."""
    declared = {one.name: one for one in evaluation.metrics}
    lengths = {}
    for name, metric in declared.items():
        if name not in columns:
            yield f"the column {name!r} is missing", True
            continue
        try:
            values = _numbers(columns[name])
        except narrowing.NarrowingError as error:
            yield f"{name!r} holds {error}", True
            continue
        except (TypeError, ValueError):
            yield f"{name!r} holds a value that is not a number", True
            continue
        lengths[name] = values.size
        yield from _within(metric, values)
    usual = max(lengths.values(), default=0)
    for name, length in lengths.items():
        if length != usual:
            yield f"{name!r} has {length:,} samples, other columns have {usual:,}", True
    if lengths and not usual:
        yield "there are no samples", True
    for name in columns:
        if name not in declared:
            yield f"{name!r} is not declared, and stays out", False


def _within(metric: scenario.Metric, values: F64) -> Iterator[tuple[str, bool]]:
    name, present = metric.name, values[~np.isnan(values)]
    if metric.kind == "classes":
        if present.size < values.size or not np.isin(present, np.arange(metric.classes)).all():
            yield f"{name!r} has values that are not classes from 0 to {metric.classes - 1}", True
        return
    if values.size and not present.size:
        yield f"{name!r} has no values at all", False
    elif present.size < values.size:
        yield f"{name!r} lacks {1 - present.size / values.size:.2%} of its values", False
    counts = column_counts(values, metric.lower, metric.upper)
    if counts.infinite:
        yield f"{name!r} is infinite in {counts.infinite:,}, and counts as an end of its range there", False
    outside = counts.outside / max(1, present.size)
    if outside > MANY:
        declared = f"{metric.lower:g} to {metric.upper:g}"
        yield f"{name!r} is outside {declared} in {outside:.2%}, and counts as its end there", False


def _table(values: Any, metric: scenario.Metric) -> npt.NDArray[Any]:
    if metric.kind == "classes":
        return class_counts(_numbers(values), metric.classes)
    return column_table(_numbers(values), metric.lower, metric.upper, metric.bins)


def _numbers(values: Any) -> F64:
    """Return f64 ``(n,)``, with NaN for None and for missing values of pandas."""
    return narrowing.exact_f64(values).reshape(-1)


def _length(columns: Mapping[str, Any], evaluation: scenario.SiteEvaluation) -> int:
    return int(_numbers(columns[evaluation.metrics[0].name]).size)
