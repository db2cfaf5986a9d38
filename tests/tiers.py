"""Parameters of tests, of which the fast tier takes a part and ``make slow`` the rest."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import settings

WHOLE = 100
"""Examples that the profiles `whole` and `search` draw for a property without a number of its own."""
FEWEST = 4
"""Examples of a property in the fast tier, unless it has fewer."""


def examples(number: int) -> int:
    """Return the examples that the loaded profile draws for a property that has ``number`` of them."""
    profile = settings.default
    assert profile is not None
    return min(number, max(FEWEST, number * profile.max_examples // WHOLE))


def covering(*axes: Iterable[object]) -> list[ParameterSet]:
    """Return the product of the axes, slow but for a cover of them.

    Each value of each axis is in a fast case, in turn: of 50 messages and 10 phases each message meets one
    phase, and each phase five messages.
    """
    values = [tuple(axis) for axis in axes]
    fast = {tuple(n % len(axis) for axis in values) for n in range(max(map(len, values)))}
    return [
        pytest.param(
            *(axis[at] for axis, at in zip(values, places, strict=True)), marks=_slow_unless(places in fast)
        )
        for places in itertools.product(*(range(len(axis)) for axis in values))
    ]


def sampled(values: Iterable[object], fast: Collection[object]) -> list[ParameterSet]:
    """Return all values, slow but for those in ``fast``; each of these has to be among them."""
    given = tuple(values)
    assert all(one in given for one in fast), fast
    return [pytest.param(one, marks=_slow_unless(one in fast)) for one in given]


def _slow_unless(fast: bool) -> Collection[pytest.MarkDecorator]:
    return () if fast else (pytest.mark.slow,)
