"""Sums with the same bits in every version of Python.

Builtin ``sum`` adds floats from left to right up to Python 3.11 and compensates for rounding from 3.12 on.
Two parties with different versions would disagree about the last bit of a model. The folders ``protocol`` and
``methods`` therefore do not call it (``tools/layout.py``). :func:`math.fsum`, which rounds once, adds floats.
:func:`ordered_sum` adds those whose order fixes the bits of runs that have begun. :func:`exact_sum` adds all
other numbers (docs/adr/0059).
"""

from collections.abc import Iterable
from fractions import Fraction
from numbers import Rational
from typing import TypeVar

from securefl.base.errors import UsageError

Exact = TypeVar("Exact", int, Fraction)
"""Numbers whose sum needs no rounding; a type checker rejects floats."""


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
    """Return the sum of floats from left to right, rounded after each step, like ``sum`` of Python 3.11."""
    total = 0.0
    for value in values:
        total += value
    return total
