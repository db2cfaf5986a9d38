"""Tables of counts and sums over a site's samples, for metrics of more than one word."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base import narrowing
from securefl.base.arrays import F64
from securefl.base.errors import UsageError

Counts = npt.NDArray[np.int64]


def score_histogram(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike | None = None,
    bins: int = 20,
    lower: float = 0.0,
    upper: float = 1.0,
) -> Counts:
    """Count samples by score, for a metric of kind ``histogram``: AUC with labels, median without.

    Args:
        scores: score of each sample, shape (n,); scores outside the range count in the outermost bin.
        labels: 0 or 1 of each sample, shape (n,), or None.
        bins: number of bins of equal width, as the scenario declares it.
        lower: lower end of the range, as the scenario declares it.
        upper: upper end.

    Returns:
        i64 ``(bins,)``; with labels i64 ``(2, bins)``, samples of label 0 first.

    Raises:
        UsageError: a sample without a finite score and label.

    >>> import securefl
    >>> securefl.score_histogram([0.1, 0.9, 0.8], [0, 1, 1], bins=2)
    array([[1, 0],
           [0, 2]])
    """
    found = _numbers(scores)
    if not np.isfinite(found).all():
        raise UsageError("scores must be finite: one is NaN or infinite")
    at = _bin_shares(_shares(found, lower, upper), bins)
    if labels is None:
        return np.bincount(at, minlength=bins)
    return _pairs(_whole(labels, 2, len(found)), at, (2, bins))


def confusion(labels: npt.ArrayLike, predicted: npt.ArrayLike, classes: int) -> Counts:
    """Count samples by true and predicted class, i64 ``(classes, classes)``, for a metric ``confusion``.

    Args:
        labels: true class of each sample from 0, shape (n,).
        predicted: predicted class of each sample, shape (n,).
        classes: number of classes.

    Raises:
        UsageError: a class outside 0 to ``classes`` - 1, or arrays of two lengths.

    >>> import securefl
    >>> securefl.confusion([0, 1, 1], [0, 1, 0], 2)
    array([[1, 0],
           [1, 1]])
    """
    true = _whole(labels, classes, None)
    return _pairs(true, _whole(predicted, classes, len(true)), (classes, classes))


def column_table(values: npt.ArrayLike, lower: float, upper: float, bins: int = 20) -> F64:
    """Return moments and a histogram of a number per sample, for a metric of kind ``column``.

    Args:
        values: shape (n,); NaN for a missing value. Values outside the range, including infinities, are
            clipped to it.
        lower: lower end of the range, as the scenario declares it.
        upper: upper end.
        bins: number of bins of equal width, as the scenario declares it.

    Returns:
        f64 ``(2 + bins,)``: the sums of u and of u^2, u = (value - lower) / (upper - lower) in 0 to 1, and
        the number of samples in each bin.

    Raises:
        UsageError: the range is empty or not finite, or ``bins`` is below 1.

    >>> import securefl
    >>> securefl.column_table([0.0, 5.0, 10.0], lower=0.0, upper=10.0, bins=2)
    array([1.5 , 1.25, 1.  , 2.  ])
    """
    found = _numbers(values)
    shares = _shares(found[~np.isnan(found)], lower, upper)
    counts = np.bincount(_bin_shares(shares, bins), minlength=bins)
    return np.concatenate(([shares.sum(), np.square(shares).sum()], counts))


@dataclass(frozen=True, slots=True)
class ColumnCounts:
    """Counts of a column's values that are missing or clipped to its range."""

    below: int = 0
    """Including negative infinities."""
    above: int = 0
    infinite: int = 0
    """Infinite values, of either sign."""
    missing: int = 0
    """NaN and None, which are in no moment and no bin."""

    @property
    def outside(self) -> int:
        """Number of values that are clipped to an end of the range."""
        return self.below + self.above

    def plus(self, other: ColumnCounts) -> ColumnCounts:
        """Return the sum of two counts."""
        return ColumnCounts(
            self.below + other.below,
            self.above + other.above,
            self.infinite + other.infinite,
            self.missing + other.missing,
        )

    @property
    def text(self) -> str:
        """Counts that are not 0, in words."""
        ends = [f"{n:,} {where}" for n, where in ((self.below, "below"), (self.above, "above")) if n]
        infinite = f", {self.infinite:,} of them infinite" if self.infinite else ""
        outside = f"{' and '.join(ends)} the range{infinite}, counted as its ends" if ends else ""
        return "; ".join(filter(None, (outside, f"{self.missing:,} missing" if self.missing else "")))


def column_counts(values: npt.ArrayLike, lower: float, upper: float) -> ColumnCounts:
    """Count the values, shape (n,), that :func:`column_table` leaves out (NaN) or clips to the range."""
    found = _numbers(values)
    counted = (found < lower, found > upper, np.isinf(found), np.isnan(found))
    return ColumnCounts(*(int(np.count_nonzero(one)) for one in counted))


def class_counts(labels: npt.ArrayLike, classes: int) -> Counts:
    """Count samples by class, i64 ``(classes,)``, for a metric of kind ``classes``.

    Args:
        labels: class of each sample from 0, shape (n,).
        classes: number of classes.

    Raises:
        UsageError: a label outside 0 to ``classes`` - 1.

    >>> import securefl
    >>> securefl.class_counts([0, 1, 1], 3)
    array([1, 2, 0])
    """
    return np.bincount(_whole(labels, classes, None), minlength=classes)


def _numbers(values: npt.ArrayLike) -> F64:
    try:
        return narrowing.exact_f64(values).reshape(-1)
    except narrowing.NarrowingError as error:
        raise UsageError(f"values must be convertible to float64 exactly: a column holds {error}") from error


def _shares(values: F64, lower: float, upper: float) -> F64:
    if not (lower < upper and math.isfinite(upper - lower)):
        raise UsageError(f"lower and upper must be finite with lower < upper, found {lower} and {upper}")
    return np.clip((values - lower) / (upper - lower), 0.0, 1.0)


def _bin_shares(shares: F64, bins: int) -> Counts:
    if bins < 1:
        raise UsageError(f"bins must be at least 1, found {bins}")
    return np.minimum((shares * bins).astype(np.int64), bins - 1)


def _pairs(rows: Counts, columns: Counts, shape: tuple[int, int]) -> Counts:
    counts: Counts = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)
    return counts


def _whole(values: Any, classes: int, samples: int | None) -> Counts:
    found = np.asarray(values).reshape(-1)
    if found.dtype.kind not in "biufO":
        raise UsageError(
            f"class labels must be whole numbers from 0 to {classes - 1}, found dtype {found.dtype}"
        )
    if samples is not None and len(found) != samples:
        raise UsageError(f"class labels must have one value per sample, {samples}, found {len(found)}")
    as_int: Counts = found.astype(np.int64)
    wrong = (as_int != found) | (as_int < 0) | (as_int >= classes)
    if wrong.any():
        at = int(wrong.argmax())
        raise UsageError(
            f"the class of sample {at} must be a whole number from 0 to {classes - 1}, found {found[at]}"
        )
    return as_int
