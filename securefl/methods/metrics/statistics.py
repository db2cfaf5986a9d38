"""Statistics of all sites' columns, as a file with which every site can standardise its own columns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from securefl import scenario
from securefl.base import narrowing
from securefl.base.arrays import F64
from securefl.base.errors import ConfigError, UsageError
from securefl.methods.metrics.derived import OF_COLUMN
from securefl.methods.metrics.pooling import Measured

FORMAT = "securefl statistics 1"


@dataclass(frozen=True, slots=True)
class FeatureStatistics:
    """One feature over all sites. Quartiles are linear within a bin; ends are those of bins with samples."""

    count: float
    """Number of samples with a value; fractional if a site has more samples than count, or with noise."""
    missing: float
    mean: float | None = None
    std: float | None = None
    """Population standard deviation (divided by the number of values). None if it is *unresolved*: 0, or
    below ``errors["std"]``, the resolution of the declared range."""
    low: float | None = None
    q25: float | None = None
    median: float | None = None
    q75: float | None = None
    high: float | None = None
    mean_range: tuple[float, float] | None = None
    """Smallest and largest mean of a cluster: the difference between sites."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Error of each number by name, in its unit: one standard deviation of the noise, plus a bound on
    rounding (for quartiles and ends, the width of a bin). For an unresolved ``std``, the smallest resolved
    value. Empty in files of earlier versions."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Pooled statistics of all sites' columns, in the order of the scenario. See :func:`securefl.statistics`.

    >>> import numpy as np, securefl
    >>> from securefl.methods.metrics.statistics import FeatureStatistics
    >>> age = FeatureStatistics(count=100, missing=0, mean=60.0, std=10.0)
    >>> securefl.Statistics({"age": age}, {}).standardise(np.array([[70.0], [np.nan]])).tolist()
    [[1.0], [0.0]]
    """

    features: Mapping[str, FeatureStatistics]
    classes: Mapping[str, tuple[float, ...]]
    """Share of each class, by the name of the labels."""
    class_errors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Error of each share, as in :attr:`FeatureStatistics.errors`."""

    @classmethod
    def of(cls, evaluation: scenario.SiteEvaluation, measured: Sequence[Measured]) -> Statistics:
        """Return the statistics from a round's metrics of kind ``column`` and ``classes``."""
        found = {one.name: one for one in measured}
        features, classes, class_errors = {}, {}, {}
        for metric in evaluation.metrics:
            if metric.kind == "classes":
                shares = [found.get(f"{metric.name}.{c}") for c in range(metric.classes)]
                classes[metric.name] = tuple(0.0 if one is None else one.value for one in shares)
                # Without a number, a share may be anything.
                class_errors[metric.name] = tuple(1.0 if one is None else _error(one) for one in shares)
            elif metric.kind == "column":
                listed = ((name, found.get(f"{metric.name}.{name}")) for name in OF_COLUMN)
                values = {name: one for name, one in listed if one is not None}
                numbers = {name: one.value for name, one in values.items()}
                if not numbers.get("std"):
                    numbers.pop("std", None)
                mean = values.get("mean")
                features[metric.name] = FeatureStatistics(
                    **numbers,
                    mean_range=None if mean is None or mean.clusters == 1 else (mean.low, mean.high),
                    errors={name: _error(one) for name, one in values.items()},
                )
        return cls(features, classes, class_errors)

    @classmethod
    def load(cls, path: str | Path) -> Statistics:
        """Read ``statistics.json``; raise a ConfigError if the file is missing or invalid."""
        try:
            read = json.loads(Path(path).read_text(encoding="utf-8-sig"))
            return cls._of_json(read)
        except OSError as error:
            raise ConfigError(
                str(path), f"cannot be read: {error.strerror}", "name the file that securefl statistics wrote"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"is not a statistics file: {type(error).__name__}: {error}"
            raise ConfigError(str(path), reason, "securefl statistics writes such a file") from error

    @classmethod
    def _of_json(cls, read: Any) -> Statistics:
        if read["format"] != FORMAT:
            raise ValueError(f"format {read['format']!r}, expected {FORMAT!r}")
        features = {name: _feature(one) for name, one in read["features"].items()}
        classes, errors = (
            {name: tuple(map(float, shares)) for name, shares in read.get(key, {}).items()}
            for key in ("classes", "class_errors")
        )
        return cls(features, classes, errors)

    def to_json(self) -> dict[str, Any]:
        """Return the object that :meth:`load` reads."""
        features = {name: asdict(one) for name, one in self.features.items()}
        errors = {"class_errors": dict(self.class_errors)} if self.class_errors else {}
        return {"format": FORMAT, "features": features, "classes": dict(self.classes), **errors}

    @property
    def unresolved(self) -> tuple[str, ...]:
        """Features with values whose standard deviation is 0 or below the resolution."""
        return tuple(name for name, one in self.features.items() if one.mean is not None and not one.std)

    def standardise(
        self,
        values: F64,
        names: Sequence[str] | None = None,
        *,
        unresolved: Literal["refuse", "centre"] = "refuse",
    ) -> F64:
        """Return columns less their means, over their standard deviations; missing values become 0, the mean.

        Args:
            values: ``(n, f)``, NaN where one is missing.
            names: of the columns; default: those of the file, in its order.
            unresolved: ``"centre"`` only subtracts the mean of a feature of unresolved standard deviation.
                Use it for constant features, which become 0, and for those whose unit is small already.

        Returns:
            f64 ``(n, f)``; a feature without any value at all sites becomes 0.

        Raises:
            UsageError: another number of columns, a name that is not in the file, or a feature of unresolved
                standard deviation: in its own unit it could outweigh all others.
        """
        wanted = tuple(self.features) if names is None else tuple(names)
        unknown = [name for name in wanted if name not in self.features]
        try:
            found = narrowing.exact_f64(values)
        except narrowing.NarrowingError as error:
            raise UsageError(
                f"values must be convertible to float64 exactly: a column holds {error}"
            ) from error
        if unknown or found.ndim != 2 or found.shape[1] != len(wanted):
            what = f"the array has shape {found.shape}, but {len(wanted)} columns are named"
            if unknown:
                what = f"column {unknown[0]!r} has no statistics"
            raise UsageError(f"{what}; columns with statistics: {', '.join(self.features)}")
        if unresolved == "refuse":
            self._refuse_unresolved(wanted)
        columns = [self.features[name] for name in wanted]
        means = np.array([one.mean or 0.0 for one in columns])
        scales = np.array([_scale_of(one) for one in columns])
        standard: F64 = np.nan_to_num((found - means) * scales, nan=0.0)
        return standard

    def _refuse_unresolved(self, wanted: Sequence[str]) -> None:
        for name in wanted:
            if name in self.unresolved:
                error = self.features[name].errors.get("std")
                least = "" if error is None else f", or below {error:.3g}"
                raise UsageError(
                    f"cannot standardise column {name!r}: its standard deviation is 0{least}, lost in the"
                    " noise; declare a narrower range, leave the column out, or pass unresolved='centre' to"
                    " subtract its mean only"
                )


def _error(one: Measured) -> float:
    return one.deviation + one.rounding


def _scale_of(one: FeatureStatistics) -> float:
    if one.mean is None:
        return 0.0
    return 1 / one.std if one.std else 1.0


def _feature(read: Mapping[str, Any]) -> FeatureStatistics:
    values: dict[str, Any] = {name: None if read[name] is None else float(read[name]) for name in OF_COLUMN}
    if any(value is not None and not math.isfinite(value) for value in values.values()):
        raise ValueError("numbers that are not finite")
    reach = read.get("mean_range")
    ends = None if reach is None else (float(reach[0]), float(reach[1]))
    errors = {str(name): float(error) for name, error in read.get("errors", {}).items()}
    if not all(map(math.isfinite, errors.values())):
        raise ValueError("errors that are not finite")
    return FeatureStatistics(**values, mean_range=ends, errors=errors)
