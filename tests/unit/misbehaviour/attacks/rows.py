"""Updates for the tests of attacks."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from securefl.base.arrays import F64


def honest(rows: int, dimension: int, seed: int, spread: float = 1.0, shift: float = 1.0) -> F64:
    """Rows round a common direction."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=dimension)
    return shift * direction + spread * rng.normal(size=(rows, dimension))


@st.composite
def known_updates(draw: st.DrawFn, least: int = 1) -> F64:
    """A few rows of a few coordinates, in the range of real updates, with ties and constant columns."""
    rows, columns = draw(st.integers(least, 7)), draw(st.integers(1, 5))
    value = st.integers(-40, 40).map(lambda step: step / 8)
    cells = draw(st.lists(value, min_size=rows * columns, max_size=rows * columns))
    return np.array(cells, dtype=np.float64).reshape(rows, columns)
