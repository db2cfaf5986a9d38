"""Whether means of a few members show two groups, and in which direction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F64, I64
from securefl.base.errors import UsageError
from securefl.methods.task_groups.halving import leading, spread
from tests.tiers import examples

DIMENSION = 2000


def means_of(rng: np.random.Generator, apart: float, clusters: int = 8) -> tuple[F64, I64, F64]:
    """Means over 2 to 4 members, half of them at each of two points; and the direction between these."""
    members = rng.integers(2, 5, clusters)
    axis = rng.standard_normal(DIMENSION)
    axis /= np.linalg.norm(axis)
    rows = []
    for count in members:
        side = rng.choice([-1.0, 1.0], count) * apart / 2
        own = side[:, np.newaxis] * axis + rng.standard_normal((count, DIMENSION)) / DIMENSION**0.5
        rows.append(own.mean(axis=0))
    return np.array(rows), members, axis


def test_two_groups_are_told_from_one() -> None:
    """Members are 4 apart, or none, and 1 from their group's point; 40 draws of each."""
    rng = np.random.default_rng(0)
    one = [spread(*means_of(rng, 0.0)[:2]).ratio for _ in range(40)]
    two = [spread(*means_of(rng, 4.0)[:2]).ratio for _ in range(40)]
    assert max(one) < 1.4
    assert min(two) > 2.0


def test_the_direction_is_that_between_the_groups_and_the_length_half_of_it_at_most() -> None:
    rng = np.random.default_rng(1)
    means, members, axis = means_of(rng, 4.0, clusters=60)
    found = spread(means, members)
    assert abs(float(found.direction @ axis)) > 0.98
    assert np.linalg.norm(found.direction) == pytest.approx(1.0)
    # Means of members that are all of one group are the longest, and shortened.
    assert 1.0 < found.length < 2.0


@settings(max_examples=examples(25))
@given(st.integers(0, 3), st.floats(1e3, 1e150), st.integers(0, 2**32 - 1))
def test_few_liars_of_any_length_do_not_turn_the_direction(liars: int, length: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    means, members, axis = means_of(rng, 12.0, clusters=20)
    means[:liars] = length * rng.standard_normal((liars, DIMENSION))
    assert abs(float(spread(means, members).direction @ axis)) > 0.9


@given(st.integers(2, 9), st.floats(1e-6, 1e6), st.integers(0, 2**32 - 1))
def test_the_ratio_has_no_unit_and_lies_between_1_and_c_less_1(clusters: int, unit: float, seed: int) -> None:
    means, members, _ = means_of(np.random.default_rng(seed), 1.0, clusters)
    found, scaled = spread(means, members), spread(unit * means, members)
    assert 1.0 - 1e-9 <= found.ratio <= clusters - 1 + 1e-9
    assert scaled.ratio == pytest.approx(found.ratio)
    assert scaled.length == pytest.approx(unit * found.length)


def test_means_that_are_all_alike_have_no_direction() -> None:
    found = spread(np.ones((3, 4)), np.full(3, 2))
    assert (found.ratio, found.length, found.direction.tolist()) == (1.0, 0.0, [0.0] * 4)


@pytest.mark.parametrize("members", [[2], [2, 0]])
def test_means_of_nobody_and_one_mean_alone_are_refused(members: list[int]) -> None:
    with pytest.raises(UsageError, match="spread"):
        spread(np.ones((len(members), 4)), np.array(members))


@given(st.integers(2, 40), st.integers(0, 2**32 - 1), st.floats(1e-100, 1e100))
def test_the_largest_eigenvalue_is_that_of_lapack(clusters: int, seed: int, unit: float) -> None:
    rows = unit * np.random.default_rng(seed).standard_normal((clusters, 50))
    rows[0] *= 3.0
    products = rows @ rows.T
    value, vector = leading(products)
    values, vectors = np.linalg.eigh(products)
    assert value == pytest.approx(values[-1], rel=1e-9)
    assert np.linalg.norm(vector) == pytest.approx(1.0)
    assert vector[np.abs(vector).argmax()] > 0
    if values[-1] > 1.05 * values[-2]:
        assert abs(float(vector @ vectors[:, -1])) == pytest.approx(1.0, abs=1e-9)


def test_nothing_has_no_direction() -> None:
    value, vector = leading(np.zeros((3, 3)))
    assert (value, vector.tolist()) == (0.0, [0.0, 0.0, 0.0])
