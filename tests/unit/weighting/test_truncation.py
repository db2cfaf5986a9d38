from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.methods.weighting.truncation import (
    Profile,
    curve,
    exact,
    feasible,
    heaviest,
    largest_cap,
    mwp,
    truncate_counts,
)
from tests.tiers import examples

TENTHS = [Fraction(n, 10) for n in range(1, 10)]
SHARES = st.tuples(st.sampled_from(TENTHS), st.sampled_from(TENTHS)).filter(lambda pair: pair[0] < pair[1])
COUNTS = st.lists(st.one_of(st.integers(1, 8), st.integers(1, 10**6)), min_size=1, max_size=40)


def test_a_tenth_of_a_hundred_is_ten() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert [heaviest(n, 0.1) for n in (100, 101, 10, 1)] == [10, 11, 1, 1]
    assert heaviest(100, 0.07) == 7, "0.07 * 100 is 7.000000000000001 in floating point"


def test_the_proportion_of_the_heaviest() -> None:
    assert mwp([1, 2, 3, 4], 0.5) == Fraction(7, 10)
    assert mwp([5, 5, 5], 0.1) == Fraction(1, 3)
    assert mwp([0, 4], 0.5) == 1
    for bad in ([], [0, 0], [-1, 2]):
        with pytest.raises(UsageError, match="must not be negative"):
            mwp(bad, 0.5)
    for share in (0, 1.5, -0.1):
        with pytest.raises(UsageError, match=r"above 0 and at most 1"):
            mwp([1, 2], share)
    assert mwp([Fraction(3, 2), 1, Fraction(1, 3)], 0.3) == Fraction(9, 17)


def test_by_hand() -> None:
    # One of ten may weigh half of all: as much as nine others that have 1 each, or as another large one.
    assert largest_cap([1] * 9 + [1000], 0.1, 0.5) == 9
    assert largest_cap([1] * 8 + [1000, 1000], 0.1, 0.5) == 1000
    assert largest_cap([1] * 8 + [1000, 1000], 0.2, 0.5) == 4
    assert largest_cap([1] * 8 + [1000, 7], 0.1, 0.5) == 15, "7 is not truncated"
    assert largest_cap([10, 10, 10], 0.3, 0.5) == 10, "nobody is"


def test_what_a_lie_buys_is_bounded_whatever_it_is() -> None:
    honest = [3, 5, 8, 13, 21, 34, 55, 89, 144]
    caps = {largest_cap([*honest, lie], 0.1, 0.5) for lie in (10**3, 10**6, 2**31)}
    assert caps == {Fraction(372)}, "half of all weight, as the others have the other half"


@settings(deadline=None)
@given(COUNTS, SHARES)
def test_the_bound_holds_and_no_larger_cap_keeps_it(
    counts: list[int], shares: tuple[Fraction, Fraction]
) -> None:
    alpha, alpha_star = shares
    assume(feasible(len(counts), alpha, alpha_star))
    cap = largest_cap(counts, alpha, alpha_star)
    assert min(counts) <= cap <= max(counts)
    assert mwp(truncate_counts(counts, cap), alpha) <= alpha_star
    if cap < max(counts):
        assert mwp(truncate_counts(counts, cap), alpha) == alpha_star, "met exactly"
        assert mwp(truncate_counts(counts, cap + Fraction(1, 10**9)), alpha) > alpha_star
        assert mwp(truncate_counts(counts, int(cap)), alpha) <= alpha_star, (
            "and so does the whole number below it"
        )


@settings(deadline=None, max_examples=examples(30))
@given(COUNTS, SHARES)
def test_the_order_does_not_matter(counts: list[int], shares: tuple[Fraction, Fraction]) -> None:
    assume(feasible(len(counts), *shares))
    assert largest_cap(sorted(counts), *shares) == largest_cap(counts, *shares)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.integers(1, 3), min_size=2, max_size=4), SHARES)
def test_theorem_1_no_other_lowering_takes_away_less(
    counts: list[int], shares: tuple[Fraction, Fraction]
) -> None:
    """Against all vectors of half-integers below the counts."""
    alpha, alpha_star = shares
    assume(feasible(len(counts), alpha, alpha_star))
    kept = sum(truncate_counts(counts, largest_cap(counts, alpha, alpha_star)))
    t = heaviest(len(counts), alpha)
    # In halves, so that all sums are integers; the shares are tenths.
    for halves in product(*(range(2 * count + 1) for count in counts)):
        if 10 * sum(sorted(halves)[-t:]) <= 10 * alpha_star * sum(halves):
            assert Fraction(sum(halves), 2) <= kept


@settings(deadline=None)
@given(COUNTS, st.sampled_from(TENTHS))
def test_the_curve_is_that_of_single_caps(counts: list[int], alpha_star: Fraction) -> None:
    points = list(curve(counts, alpha_star))
    assert [cap for _, cap in points] == sorted(cap for _, cap in points)
    for alpha, cap in points:
        if alpha < alpha_star:
            assert cap == largest_cap(counts, alpha, alpha_star)
    if points:
        last, cap = points[-1]
        assert last == Fraction(1, len(counts)) or cap == max(counts)
    assert len(points) <= alpha_star * len(counts)


def test_a_hundred_thousand_counts_at_once() -> None:
    """A loop over all counts for each of the caps would take minutes."""
    counts = [1 + (7 * n * n) % 99991 for n in range(100_000)]
    points = list(curve(counts, 0.01))
    assert largest_cap(counts, 0.009, 0.01) == dict(points)[Fraction(9, 1000)]
    assert points[-1][1] == max(counts), "from 499 liars on nobody need be truncated"


@pytest.mark.parametrize(
    ("counts", "alpha", "alpha_star", "why"),
    [
        ([1, 2], 0.5, 0.5, "alpha < alpha_star < 1 must hold"),
        ([1, 2], 0.6, 0.5, "alpha < alpha_star < 1 must hold"),
        ([1, 2], 0.1, 1.0, "alpha < alpha_star < 1 must hold"),
        ([1, 2], 0.0, 0.5, "alpha < alpha_star < 1 must hold"),
        ([1, 2, 3], 0.45, 0.5, "no cap keeps 2 of 3 parties"),
        ([7], 0.1, 0.5, "1 of 1 parties"),
        ([], 0.1, 0.5, "positive integers"),
        ([0, 3], 0.1, 0.5, "positive integers"),
    ],
)
def test_refused(counts: list[int], alpha: float, alpha_star: float, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        largest_cap(counts, alpha, alpha_star)


def test_a_curve_needs_a_bound_below_one() -> None:
    with pytest.raises(UsageError, match=r"must be in \(0, 1\)"):
        list(curve([1, 2], 1.0))
    assert Profile([3, 1]).largest == 3
