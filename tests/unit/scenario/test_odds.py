"""Odds against full enumeration and against numbers that protocol.md states."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.methods.clustering import odds


def test_alone_among_colluders_as_protocol_md_states_it() -> None:
    assert odds.alone_among(60, 12, 3) == pytest.approx(0.039, abs=5e-4)
    assert odds.alone_among(10, 1, 3) == 0.0
    assert odds.alone_among(10, 9, 3) == 1.0
    assert odds.alone_among(10, 0, 1) == 1.0


def test_once_in() -> None:
    assert odds.once_in(0.5, 2) == pytest.approx(0.75)
    assert odds.once_in(1e-20, 1000) == pytest.approx(1e-17)
    assert odds.once_in(1.0, 3) == 1.0
    assert odds.once_in(1.0, 0) == 0.0


@st.composite
def populations(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Cluster sizes, how many rest, how many of all are marked; few enough to enumerate."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    resting = draw(st.integers(0, 2))
    return sizes, resting, draw(st.integers(0, sum(sizes) + resting))


def enumerate_hits(sizes: list[int], resting: int, marked: int) -> list[list[int]]:
    """For every choice of the marked: how many each cluster holds."""
    home = [cluster for cluster, size in enumerate(sizes) for _ in range(size)] + [-1] * resting
    return [
        [sum(home[seat] == cluster for seat in seats) for cluster in range(len(sizes))]
        for seats in combinations(range(len(home)), marked)
    ]


@given(populations(), st.integers(0, 3))
def test_all_within_is_exact(population: tuple[list[int], int, int], allowed: int) -> None:
    sizes, resting, marked = population
    cases = enumerate_hits(sizes, resting, marked)
    share = sum(max(case) <= allowed for case in cases) / len(cases)
    assert odds.all_within(sizes, marked, lambda _size: allowed, resting) == pytest.approx(share)


@given(populations(), st.integers(0, 4))
def test_touched_at_most_is_exact(population: tuple[list[int], int, int], most: int) -> None:
    sizes, resting, marked = population
    cases = enumerate_hits(sizes, resting, marked)
    share = sum(sum(hit > 0 for hit in case) <= most for case in cases) / len(cases)
    assert odds.touched_at_most(sizes, marked, most, resting) == pytest.approx(share)


def test_large_populations_are_approximated_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, marked = [5] * 40, 30
    within = odds.all_within(sizes, marked, lambda _size: 2)
    touched = odds.touched_at_most(sizes, marked, 24)
    monkeypatch.setattr(odds, "_EXACT_WORK", 0)
    assert odds.all_within(sizes, marked, lambda _size: 2) == pytest.approx(within, abs=0.05)
    assert odds.touched_at_most(sizes, marked, 24) == pytest.approx(touched, abs=0.05)


def test_the_largest_population_takes_no_time() -> None:
    sizes = [3] * 33_333 + [1]
    assert 0 <= odds.all_within(sizes, 20_000, lambda _size: 1) <= 1e-9
    assert odds.touched_at_most(sizes, 20_000, 16_000) < 0.5 < odds.touched_at_most(sizes, 20_000, 17_000)
