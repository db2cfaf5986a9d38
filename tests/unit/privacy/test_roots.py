from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.methods.privacy.calibration import falling_root

BOUNDS = (0.05, 1e4)


@given(
    root=st.floats(0.06, 9e3),
    power=st.floats(0.5, 6.0),
    start=st.floats(0.06, 9e3),
    floor=st.one_of(st.none(), st.floats(0.5, 1.0)),
)
def test_the_root_is_bracketed_from_above(
    root: float, power: float, start: float, floor: float | None
) -> None:
    calls = 0

    def over(x: float) -> float:
        nonlocal calls
        calls += 1
        if floor is not None and x < floor * root:
            return math.inf
        return power * math.log(root / x) + 0.1 * math.sin(min(x, root) / root) - 0.1 * math.sin(1)

    found = falling_root(over, start, 1.5, 1e-4, BOUNDS)
    assert found is not None
    assert root <= found * (1 + 1e-9)
    assert found <= root * (1 + 2e-4)
    assert calls < 60


@pytest.mark.parametrize("always", [1.0, -1.0, math.inf, -math.inf])
def test_no_root_between_the_bounds(always: float) -> None:
    assert falling_root(lambda _: always, 1.0, 2.0, 1e-4, BOUNDS) is None
