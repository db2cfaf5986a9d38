"""Formulas of reclustering against simulated draws; every tolerance is five standard deviations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from securefl.base.errors import UsageError
from securefl.methods.clustering import odds
from securefl.methods.clustering.reclustering import (
    exact_variance_factor,
    p_withstands,
)
from securefl.methods.clustering.sizes import cluster_sizes
from tests.looped import looped
from tests.unit.findings.reclustering_bounds import p_never_clean, worst_case_tolerance

DRAWS = 4_000


def assignments(parties: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """``DRAWS`` orders of all parties; clusters are consecutive seats."""
    return np.random.default_rng(seed).permuted(np.tile(np.arange(parties), (DRAWS, 1)), axis=1)


@pytest.mark.parametrize(("parties", "byzantine", "size"), [(60, 12, 3), (60, 6, 10), (12, 3, 4), (9, 0, 3)])
def test_a_cluster_is_clean_as_often_as_stated(parties: int, byzantine: int, size: int) -> None:
    clean = (assignments(parties, 1)[:, :size] >= byzantine).all(axis=1).mean()
    stated = float(1 - odds.tail(parties, byzantine, size, 1))
    assert abs(clean - stated) <= 5 * math.sqrt(stated * (1 - stated) / DRAWS)


@pytest.mark.parametrize(
    ("parties", "byzantine", "size", "reclusterings"),
    [(60, 12, 3, 1), (60, 12, 3, 2), (20, 6, 5, 3), (9, 2, 1, 2)],
)
def test_a_benign_party_is_never_in_a_clean_cluster_as_often_as_stated(
    parties: int, byzantine: int, size: int, reclusterings: int
) -> None:
    never = np.ones(DRAWS, dtype=np.bool_)
    for r in range(reclusterings):
        order = assignments(parties, 10 + r)
        seat = (order == parties - 1).argmax(axis=1)
        start = seat // size * size
        mates = np.take_along_axis(order, start[:, np.newaxis] + np.arange(size), axis=1)
        never &= (mates < byzantine).any(axis=1)
    stated = p_never_clean(parties, byzantine, size, reclusterings)
    assert abs(never.mean() - stated) <= 5 * math.sqrt(stated * (1 - stated) / DRAWS)


@pytest.mark.parametrize("reclusterings", [1, 2, 5])
def test_variance_of_the_mean_over_reclusterings(reclusterings: int) -> None:
    parties, byzantine, size, picked = 12, 2, 3, 2
    values = np.random.default_rng(3).normal(size=parties - byzantine)
    values = (values - values.mean()) / values.std()
    means = np.mean(
        [
            values[assignments(len(values), 20 + r)[:, : size * picked]].mean(axis=1)
            for r in range(reclusterings)
        ],
        axis=0,
    )
    found = float((means**2).mean()) * size * picked
    exact = exact_variance_factor(parties, byzantine, size, picked, reclusterings)
    assert found == pytest.approx(exact, rel=5 * math.sqrt(2 / DRAWS))


@pytest.mark.parametrize(
    ("parties", "byzantine", "size", "withstood", "reclusterings"),
    [(60, 12, 3, 9, 1), (60, 12, 3, 9, 3), (14, 4, 3, 2, 2), (9, 3, 1, 3, 2), (12, 5, 4, 2, 1)],
)
def test_a_round_withstands_as_often_as_stated(
    parties: int, byzantine: int, size: int, withstood: int, reclusterings: int
) -> None:
    """Of 14 parties in clusters of 3 two clusters have 4 members."""
    ends = np.cumsum(cluster_sizes(parties, size))
    good = np.ones(DRAWS, dtype=np.bool_)
    for r in range(reclusterings):
        bad = assignments(parties, 40 + r) < byzantine
        spoilt = np.add.reduceat(bad, np.r_[0, ends[:-1]], axis=1) > 0
        good &= spoilt.sum(axis=1) <= withstood
    stated = p_withstands(parties, byzantine, size, withstood, reclusterings)
    assert abs(good.mean() - stated) <= 5 * math.sqrt(stated * (1 - stated) / DRAWS)


def test_the_worst_case() -> None:
    assert worst_case_tolerance(60, 3, 9) == 9
    assert worst_case_tolerance(60, 15, 1) == 1
    assert worst_case_tolerance(60, 3, 20) == 60


@looped(
    "call",
    [
        lambda: p_never_clean(10, 11, 3, 1),
        lambda: p_never_clean(10, -1, 3, 1),
        lambda: p_never_clean(10, 1, 0, 1),
        lambda: p_never_clean(10, 1, 11, 1),
        lambda: p_never_clean(10, 10, 3, 1),
        lambda: p_never_clean(10, 1, 3, 0),
        lambda: exact_variance_factor(10, 4, 3, 3, 1),
        lambda: exact_variance_factor(10, 4, 3, 2, 0),
        lambda: exact_variance_factor(10, 9, 1, 1, 1),
        lambda: worst_case_tolerance(10, 3, -1),
        lambda: worst_case_tolerance(10, 11, 1),
        lambda: p_withstands(10, 11, 3, 1, 1),
        lambda: p_withstands(10, 1, 3, 1, 0),
    ],
)
def test_nonsense_is_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(UsageError):
        call()
