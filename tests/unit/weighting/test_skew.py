from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.methods.weighting.truncation import objective_skew

PARTIES = st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 50)), min_size=1, max_size=20)


@given(PARTIES, st.fractions(Fraction(1, 3), 10**6))
def test_theorem_3_bounds_what_truncation_takes_from_the_objective(
    parties: list[tuple[int, float]], cap: Fraction
) -> None:
    counts, losses = zip(*parties, strict=True)
    skew = objective_skew(counts, cap, losses)
    assert skew.difference <= skew.bound + 1e-9 * max(1.0, *losses)


def test_by_hand() -> None:
    # Weights 8/10 and 2 x 1/10 become 2/4 and 2 x 1/4.
    skew = objective_skew([8, 1, 1], 2, [1.0, 3.0, 5.0])
    assert skew.declared == pytest.approx(1.6)
    assert skew.truncated == pytest.approx(2.5)
    assert skew.bound == pytest.approx((0.8 - 1 / 3) * 1.0 + (0.1 - 0.25) * 8.0)


def test_it_is_one_sided() -> None:
    """Truncation may raise the objective by more than the bound says in the other direction."""
    skew = objective_skew([8, 1, 1], 2, [1.0, 4.0, 4.0])
    assert skew.difference == pytest.approx(-0.9)
    assert skew.bound == pytest.approx(-0.7333, abs=1e-4)


def test_a_liar_moves_it_as_far_as_its_loss() -> None:
    bounds = [objective_skew([lie, 5, 5, 5], 5, [10.0, 1.0, 1.0, 1.0]).bound for lie in (5, 50, 10**7)]
    assert bounds == sorted(bounds)
    assert bounds[-1] == pytest.approx(10.0 * 3 / 4 - 0.75, abs=1e-4)


@pytest.mark.parametrize(
    ("counts", "cap", "losses", "why"),
    [
        ([], 1, [], "0 losses"),
        ([1, 2], 1, [0.5], "found 1 losses, 2"),
        ([1, 2], 1, [0.5, float("nan")], "party 1 must be finite and not negative, found nan"),
        ([1, 2], 1, [-0.5, 1.0], "party 0 must be finite and not negative, found -0.5"),
        ([0, 2], 1, [0.5, 1.0], "positive"),
        ([1, 2], 0, [0.5, 1.0], "positive"),
    ],
)
def test_refused(counts: list[int], cap: int, losses: list[float], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        objective_skew(counts, cap, losses)
