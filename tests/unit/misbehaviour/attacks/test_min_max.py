from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F64
from securefl.methods.attacks.parts.min_max import Direction, min_max, perturbation
from securefl.methods.attacks.parts.min_sum import min_sum
from tests.tiers import examples
from tests.unit.misbehaviour.attacks.rows import honest, known_updates

directions = st.sampled_from(get_args(Direction))


def furthest(row: F64, known: F64) -> float:
    return max(float(np.linalg.norm(row - x)) for x in known)


def summed(row: F64, known: F64) -> float:
    return sum(float(np.linalg.norm(row - x)) ** 2 for x in known)


def bisected(known: F64, push: F64, cost: Callable[[F64, F64], float]) -> F64:
    """The search of the paper, for the largest factor that keeps the cost at that of a known row."""
    mean = known.mean(axis=0)
    bound = max(cost(x, known) for x in known)
    low, high = 0.0, 1.0
    while cost(mean + high * push, known) <= bound:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(mean + middle * push, known) <= bound else (low, middle)
    found: F64 = mean + low * push
    return found


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(2, 6), st.integers(1, 6), st.integers(0, 2**32), directions)
def test_the_closed_forms_find_what_a_search_finds(
    rows: int, columns: int, seed: int, direction: Direction
) -> None:
    known = honest(rows, columns, seed)
    push = perturbation(known, direction)
    assert np.allclose(min_max(known, direction), bisected(known, push, furthest), rtol=1e-9, atol=1e-9)
    assert np.allclose(min_sum(known, direction), bisected(known, push, summed), rtol=1e-9, atol=1e-9)


@settings(max_examples=examples(60))
@given(known_updates(least=2), directions)
def test_the_constraints_hold_and_are_tight(known: F64, direction: Direction) -> None:
    moved = perturbation(known, direction).any()
    by_max, by_sum = min_max(known, direction), min_sum(known, direction)
    most = max(furthest(x, known) for x in known)
    assert furthest(by_max, known) <= most * (1 + 1e-9)
    most_summed = max(summed(x, known) for x in known)
    assert summed(by_sum, known) <= most_summed * (1 + 1e-9) + 1e-12
    if moved:
        assert furthest(by_max, known) == pytest.approx(most, abs=1e-7)
        assert summed(by_sum, known) == pytest.approx(most_summed, abs=1e-7)


def test_the_directions() -> None:
    known = np.array([[3.0, -4.0, 0.0], [3.0, -4.0, 2.0], [3.0, -4.0, -2.0]])
    assert np.allclose(perturbation(known, "unit"), [-0.6, 0.8, 0.0])
    assert np.allclose(perturbation(known, "sign"), [-1.0, 1.0, 0.0])
    assert np.allclose(perturbation(known, "std"), [0.0, 0.0, -np.sqrt(8 / 3)])


@pytest.mark.parametrize("direction", get_args(Direction))
def test_one_known_update_and_no_update_at_all_leave_nothing_to_hide_in(direction: Direction) -> None:
    one = np.array([[1.0, -2.0]])
    assert np.allclose(min_max(one, direction), one[0])
    assert np.allclose(min_sum(one, direction), one[0])
    assert not min_max(np.zeros((3, 2)), direction).any()
