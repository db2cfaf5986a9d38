"""The weighted median where values are so close that a tag in their last bits hides what differs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from securefl.base.arrays import F64
from securefl.base.stack import ClusterMeans
from securefl.methods.robust.distances import column_blocks, tag_mask
from securefl.methods.robust.rules.median import weighted_median
from tests.looped import looped

HUGE = float(np.finfo(np.float64).max) / 2
Rows = Callable[[np.random.Generator, int], F64]

ROWS: dict[str, Rows] = {
    "apart": lambda rng, c: rng.normal(size=(c, 20)),
    "equal": lambda rng, c: rng.integers(-2, 3, (c, 20)).astype(np.float64),
    "zeros of both signs": lambda rng, c: rng.choice([-0.0, 0.0], (c, 20)),
    "last bits": lambda rng, c: 1.0 + rng.integers(-8, 9, (c, 20)).astype(np.float64) * 2.0**-52,
    "subnormal": lambda rng, c: rng.integers(-9, 10, (c, 20)).astype(np.float64) * 5e-324,
    "huge": lambda rng, c: rng.choice([-HUGE, 0.5, 1.0, HUGE], (c, 20)),
}


def by_counting(values: list[float], weights: list[int]) -> float:
    """The definition, value by value, in integers."""
    pairs = list(zip(values, weights, strict=True))
    lower = min(x for x in values if 2 * sum(w for v, w in pairs if v <= x) >= sum(weights))
    upper = max(x for x in values if 2 * sum(w for v, w in pairs if v >= x) >= sum(weights))
    return (lower + upper) / 2


@looped("kind, clusters", product(ROWS, [1, 2, 5, 33, 64]))
def test_equals_the_definition(kind: str, clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    means = ROWS[kind](rng, clusters)
    for spread in (2, 1 << 16):
        weights = rng.integers(1, spread + 1, clusters)
        got = weighted_median(ClusterMeans(means, weights / spread, np.full(clusters, 3))).vector
        expected = [by_counting(column, weights.tolist()) for column in means.T.tolist()]
        np.testing.assert_array_equal(got, expected)


def test_tags_name_the_row_of_each_rank() -> None:
    means = np.random.default_rng(1).normal(size=(11, 300))
    (block,) = column_blocks(means, tagged=True)
    mask = tag_mask(11)
    assert mask == 15
    whose = block.ranked.view(np.int64) & mask
    np.testing.assert_array_equal(whose, np.argsort(means, axis=0))
