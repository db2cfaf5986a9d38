from __future__ import annotations

from fractions import Fraction
from math import erf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.methods.attacks.parts.alie import alie, alie_quantile, alie_z
from tests.unit.misbehaviour.attacks.rows import known_updates


def test_the_example_of_the_paper() -> None:
    """50 parties, 24 attackers: 2 honest ones have to be further out, 24 of 26 may be nearer."""
    assert alie_quantile(50, 24) == Fraction(24, 26)
    assert alie_z(50, 24) == pytest.approx(1.426, abs=5e-4)


@given(st.integers(3, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n // 2))))
def test_z_hides_with_just_enough_honest_parties_beyond_it(numbers: tuple[int, int]) -> None:
    parties, attackers = numbers
    honest = parties - attackers
    needed = parties // 2 + 1 - attackers
    if 2 * needed >= honest:
        with pytest.raises(UsageError, match="no z"):
            alie_z(parties, attackers)
        return
    z = alie_z(parties, attackers)
    beyond = honest * (1 - (1 + erf(z / sqrt(2))) / 2)
    assert z > 0
    assert beyond == pytest.approx(needed, abs=1e-6)


@pytest.mark.parametrize(("parties", "attackers"), [(10, 1), (10, 6), (51, 26)])
def test_too_few_attackers_and_a_majority_have_no_z(parties: int, attackers: int) -> None:
    with pytest.raises(UsageError, match=f"hides {attackers} Byzantine among {parties} parties"):
        alie_z(parties, attackers)


@given(known_updates(), st.floats(0.0, 3.0))
def test_mean_minus_z_deviations(known: F64, z: float) -> None:
    sent = alie(known, z)
    for got, column in zip(sent, known.T, strict=True):
        mean = sum(column) / len(column)
        std = sqrt(sum((x - mean) ** 2 for x in column) / len(column))
        assert got == pytest.approx(mean - z * std, abs=1e-9)


def test_many_honest_values_lie_beyond_it_as_promised() -> None:
    """Fixed seed; for 100 coordinates of 26 normal values, on average 2 lie below."""
    known = np.random.default_rng(11).normal(size=(26, 400))
    below = (known < alie(known, alie_z(50, 24))).sum(axis=0)
    # The standard error of the mean count is below sqrt(2) / 20.
    assert below.mean() == pytest.approx(2.0, abs=4 * sqrt(2) / 20)
