"""Sums with the same bits in every version of Python.

Builtin ``sum`` of floats compensates for rounding from Python 3.12 on, so parties with different versions
would disagree about a model's last bit. Therefore ``protocol`` and ``methods`` never call it
(``tools/layout.py``). Use :func:`math.fsum` for floats, :func:`ordered_sum` if their order fixes the bits of
runs that have begun, and :func:`exact_sum` for other numbers (docs/adr/0059).
"""

from collections.abc import Iterable
from fractions import Fraction
from numbers import Rational
from typing import TypeVar

from securefl.base.errors import UsageError

Exact = TypeVar("Exact", int, Fraction)
"""Numbers whose sum needs no rounding."""


def exact_sum(values: Iterable[Exact]) -> Exact:
    """Return the sum of integers or fractions; 0 if there are none.

    Raises:
        UsageError: a value is a float; use :func:`math.fsum`.
    """
    total = sum(values)
    if not isinstance(total, Rational):
        raise UsageError(f"exact_sum takes integers and fractions only, found {type(total).__name__}")
    return total


def ordered_sum(values: Iterable[float]) -> float:
    """Return the sum of floats from left to right, rounded at each step, like ``sum`` of Python 3.11."""
    total = 0.0
    for value in values:
        total += value
    return total
