"""Sums with the same bits on every version of Python, and the rule that keeps builtin ``sum`` out."""

from __future__ import annotations

import importlib.util
import math
import struct
import sys
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.base.sums import exact_sum, ordered_sum

ROOT = Path(__file__).parents[2]
FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=12)


def _layout() -> Any:
    spec = importlib.util.spec_from_file_location("layout", ROOT / "tools" / "layout.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


LAYOUT = _layout()


def _rounded_once(exact: Fraction) -> float:
    """The nearest double, by the division of integers, which rounds correctly."""
    return exact.numerator / exact.denominator


@given(FLOATS)
def test_each_step_of_an_ordered_sum_is_rounded(values: list[float]) -> None:
    total = Fraction(0)
    for value in values:
        total = Fraction(_rounded_once(total + Fraction(value)))
    assert Fraction(ordered_sum(values)) == total


@pytest.mark.parametrize(
    ("values", "bits"),
    [
        ([0.1] * 10, "3fefffffffffffff"),
        ([1e16, 1.0, -1e16], "0000000000000000"),
        ([1 / 3, 2 / 3, 1 / 7, 3.0], "4010924924924924"),
        ([], "0000000000000000"),
        ([-0.0, -0.0], "0000000000000000"),
    ],
)
def test_an_ordered_sum_has_the_bits_of_python_3_11(values: list[float], bits: str) -> None:
    assert struct.pack(">d", ordered_sum(values)).hex() == bits


@given(st.lists(st.integers() | st.booleans() | st.fractions(), max_size=12))
def test_an_exact_sum_is_exact(values: list[Any]) -> None:
    expected = Fraction(0)
    for value in values:
        expected += Fraction(int(value) if isinstance(value, bool) else value)
    assert exact_sum(values) == expected


def test_an_exact_sum_takes_integers_of_numpy() -> None:
    assert exact_sum(np.array([3, 4], dtype=np.int64)) == 7
    assert exact_sum(iter([2**70, 1])) == 2**70 + 1
    assert exact_sum([]) == 0


@pytest.mark.parametrize(
    "values", [[0.5], [1, 2.0], [Fraction(1, 2), 0.5], np.array([0.5]), [np.float32(1)], [1j]]
)
def test_an_exact_sum_refuses_floats(values: Iterable[Any]) -> None:
    with pytest.raises(UsageError, match=r"takes integers and fractions only, found (float|complex)"):
        exact_sum(values)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(x):\n    return sum(x)\n", [2]),
        ("y = map(sum, [[1]])\n", [1]),
        ("key = sum\nx = sorted([], key=key)\n", [1]),
        ("from builtins import sum as add\n", [1]),
        ("import builtins\n", [1]),
        ("import math\nx = math.fsum([])\n", []),
        (
            "x = array.sum()\ny = np.sum(x)\nclass C:\n    sum: int = 0\n    def f(self): return self.sum\n",
            [],
        ),
        ('"""The sum of a cluster, sum(x)."""\n', []),
    ],
)
def test_builtin_sums_are_found(source: str, lines: list[int]) -> None:
    assert list(LAYOUT.builtin_sums(source)) == lines


def test_a_builtin_sum_in_the_protocol_or_a_method_is_a_complaint() -> None:
    known = LAYOUT.modules(ROOT)
    assert not list(LAYOUT.sum_complaints(known))
    # This module uses the builtin, which its own wing may.
    user = known["securefl.base.sums"]
    for wing in ("protocol", "methods"):
        (line,) = LAYOUT.sum_complaints({f"securefl.{wing}.other": user, "securefl.lab.other": user})
        assert "builtin sum depends on the version of Python: math.fsum for floats" in line


def test_the_bits_of_builtin_sum_depend_on_the_version() -> None:
    """The reason for the rule: it fails if a version of Python goes back to the older way."""
    compensated = sys.version_info >= (3, 12)
    assert (sum([0.1] * 10) == math.fsum([0.1] * 10)) is compensated
    assert (sum([0.1] * 10) == ordered_sum([0.1] * 10)) is not compensated
