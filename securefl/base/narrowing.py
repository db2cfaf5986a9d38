"""Exact conversions of users' numbers to other dtypes; inexact ones are refused."""

import numbers
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64

EXACT_INTEGERS: Final = 1 << 53
"""Bound up to which f64 represents every integer."""

WORST_ROUNDING: Final = 1e-3
"""Largest rounding error to f32, relative to a column's standard deviation."""

_KINDS: Final = {
    "S": "text",
    "U": "text",
    "c": "complex numbers",
    "M": "dates",
    "m": "durations",
    "V": "records",
}


class NarrowingError(ValueError):
    """Values that another dtype does not represent; the text completes a sentence."""


def exact_f64(values: Any) -> F64:
    """Return a copy of a user's numbers as f64. Missing values (None, pandas' NA) become NaN.

    Raises:
        NarrowingError: text, dates, complex numbers, or a whole number that f64 does not represent.
        TypeError, ValueError: the values are not numbers.
    """
    found = np.asarray(values)
    if found.dtype.kind in _KINDS:
        raise NarrowingError(f"{_KINDS[found.dtype.kind]}, not numbers")
    if found.dtype.kind == "O":
        _check_objects(found)
    # Copying a tensor with numpy warns; pandas converts its own NA to NaN.
    wide: F64 = np.array(values if found.dtype.kind == "O" else found, dtype=np.float64)
    if found.dtype.kind in "iu" and found.dtype.itemsize == wide.dtype.itemsize:
        beyond = np.greater(found, EXACT_INTEGERS)
        if found.dtype.kind == "i":
            beyond = np.logical_or(beyond, np.less(found, -EXACT_INTEGERS))
        for whole in found[beyond].tolist():
            check_whole(whole)
    if found.dtype.kind == "f" and found.dtype.itemsize > wide.dtype.itemsize:
        lost = found[(wide != found) & ~np.isnan(found)]
        if lost.size:
            raise NarrowingError(f"{lost.flat[0]}, which 64 bits do not hold")
    return wide


def check_whole(whole: int | Decimal) -> None:
    """Check that f64 represents a whole number.

    Raises:
        NarrowingError: it does not. Such a number is usually an identifier, which would merge with its
            neighbours.
    """
    if not -EXACT_INTEGERS <= whole <= EXACT_INTEGERS and int(float(whole)) != whole:
        raise NarrowingError(f"{whole}, which no 64-bit floating-point number is")


def check_f32(wide: npt.NDArray[Any], narrow: npt.NDArray[np.float32]) -> None:
    """Check that f32 keeps the differences of numbers, unlike for seconds since 1970.

    Args:
        wide: ``(n, ...)``; a table is checked by column, another shape as a whole.
        narrow: the same numbers, rounded, all finite.

    Raises:
        NarrowingError: an error exceeds :data:`WORST_ROUNDING` of the standard deviation.
    """
    if wide.dtype.itemsize <= narrow.dtype.itemsize or not wide.size:
        return
    columns = wide if wide.ndim == 2 else wide.reshape(-1, 1)
    rounded = narrow.reshape(columns.shape)
    for number in range(columns.shape[1]):
        column = columns[:, number]
        lost = float(np.abs(column - rounded[:, number]).max())
        if lost and lost > WORST_ROUNDING * float(column.std()) > 0:
            where = f" in column {number}" if columns.shape[1] > 1 else ""
            raise NarrowingError(f"numbers{where} whose differences 32 bits do not hold")


def _check_objects(found: npt.NDArray[Any]) -> None:
    for one in found.flat:
        if isinstance(one, str | bytes):
            raise NarrowingError("text, not numbers")
        if isinstance(one, numbers.Complex) and not isinstance(one, numbers.Real):
            raise NarrowingError("complex numbers, not real ones")
        if isinstance(one, numbers.Integral):
            check_whole(int(one))
