"""Matching, its distances, and k-means."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.methods.task_groups.kmeans import trimmed_kmeans
from securefl.methods.task_groups.problem import matched_distance, matching, nearest_distance, recovery_rate


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_no_permutation_costs_less(size: int, seed: int) -> None:
    cost = np.random.default_rng(seed).integers(-4, 5, (size, size)).astype(np.float64)
    found = matching(cost)
    assert sorted(found.tolist()) == list(range(size))
    least = min(sum(cost[i, j] for i, j in enumerate(order)) for order in permutations(range(size)))
    assert cost[np.arange(size), found].sum() == pytest.approx(least)


def test_two_models_of_one_group_are_near_but_do_not_match() -> None:
    truth = np.array([[0.0], [10.0]])
    assert nearest_distance(np.array([[0.0], [0.0]]), truth) == 0.0
    assert matched_distance(np.array([[0.0], [0.0]]), truth) == 5.0
    assert matched_distance(truth[::-1].copy(), truth) == 0.0


def test_recovery_counts_honest_machines_in_their_own_group() -> None:
    labels, honest = np.array([0, 0, 1, 1, 0]), np.array([True, True, True, True, False])
    assert recovery_rate(np.array([1, 1, 0, 0, 0]), labels, honest, 2) == 1.0
    assert recovery_rate(np.array([1, 1, 0, -1, 0]), labels, honest, 2) == 0.75


def test_kmeans_leaves_out_the_far_share() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    points = np.concatenate([np.repeat(centres, 20, axis=0) + 0.1 * rng.standard_normal((60, 2))])
    points = np.concatenate([points, np.array([[1e6, 1e6], [-1e6, 0.0], [0.0, -1e6]])])
    found = trimmed_kmeans(points, 3, 0.05, rng)
    assert matched_distance(found.centroids, centres) < 0.1
    assert found.cost < 60 * 0.1
    untrimmed = trimmed_kmeans(points, 3, 0.0, rng)
    assert matched_distance(untrimmed.centroids, centres) > 1e4


def test_kmeans_of_equal_points_and_of_too_few() -> None:
    found = trimmed_kmeans(np.ones((4, 2)), 2, 0.0, np.random.default_rng(0), restarts=2)
    assert found.cost == 0.0
    with pytest.raises(UsageError, match="groups must be from 1 to 2"):
        trimmed_kmeans(np.ones((4, 2)), 3, 0.5, np.random.default_rng(0))
