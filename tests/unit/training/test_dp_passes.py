"""Rows of examples in passes: with holes they depend on the example's slot alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from securefl.training.dpsgd.step import dense_passes, fixed_passes


@given(slots=st.sets(st.integers(0, 99), max_size=60), rows=st.integers(1, 40))
def test_each_example_is_in_one_pass_in_the_row_of_its_slot(slots: set[int], rows: int) -> None:
    drawn = np.array(sorted(slots, key=hash), dtype=np.int64)
    passes = fixed_passes(drawn, rows)
    for each in passes:
        assert each.rows == rows
        assert each.places.tolist() == (drawn[each.picks] % rows).tolist()
        assert len(set(each.places.tolist())) == len(each.picks) > 0
    assert sorted(pick for each in passes for pick in each.picks.tolist()) == list(range(len(drawn)))
    most = max(np.bincount(drawn % rows).tolist(), default=0)
    assert len(passes) == most, "no more passes than the fullest row needs"


@given(examples=st.integers(0, 60), rows=st.integers(1, 40))
def test_passes_without_holes_keep_the_order(examples: int, rows: int) -> None:
    passes = dense_passes(examples, rows)
    assert [pick for each in passes for pick in each.picks.tolist()] == list(range(examples))
    assert all(each.places.tolist() == list(range(each.rows)) for each in passes)
    assert all(each.rows == rows for each in passes[:-1])


def test_only_examples_that_are_there_count() -> None:
    (each,) = fixed_passes(np.array([6, 2, 3]), 5)
    there = np.array([True, False, True])
    assert each.present(there).tolist() == [False, True, False, True, False]
