from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.methods.privacy.checks.null import MAX_SUM_STD, Null, check_values, sum_law
from securefl.methods.privacy.laws import NoiseLaw, weights
from tests.tiers import examples
from tests.unit.privacy.checks.sums import law_on_line

LAWS: tuple[NoiseLaw, ...] = ("skellam", "discrete-gaussian")


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("std", [4.0, 30.0, 1000.0])
def test_the_law_in_floats_lies_in_the_brackets(law: NoiseLaw, std: float) -> None:
    """Every probability to a relative 1e-10, down to 1e-30, against integers of 192 binary digits."""
    found, exact = sum_law(Null(law, std, 1, 0)), weights(law, std)
    total = Fraction(2 * (sum(exact.low) + exact.beyond) - exact.low[0])
    for k in range(0, found.largest + 1, max(1, found.largest // 200)):
        true = float(exact.low[k] / total)
        assert found.mass[k] == pytest.approx(true, rel=1e-10)
        on = float((sum(exact.low[k:]) + exact.beyond) / total)
        assert found.from_on[k] == pytest.approx(on, rel=1e-10, abs=1e-28)


def test_skellam_sums_are_the_convolution() -> None:
    one, three = sum_law(Null("skellam", 4.0, 1, 0)), sum_law(Null("skellam", 4.0, 3, 0))
    line = law_on_line(one)
    summed = np.convolve(np.convolve(line, line), line)
    middle = summed[3 * one.largest :][: three.mass.size]
    np.testing.assert_allclose(middle, three.mass[: middle.size], rtol=0, atol=1e-15)


def test_sums_of_discrete_gaussians_are_taken_as_one() -> None:
    """The true convolution at the smallest allowed deviation differs by less than floats show."""
    one, two = sum_law(Null("discrete-gaussian", 4.0, 1, 0)), sum_law(Null("discrete-gaussian", 4.0, 2, 0))
    line = law_on_line(one)
    summed = np.convolve(line, line)[2 * one.largest :][: two.mass.size]
    np.testing.assert_allclose(summed, two.mass[: summed.size], rtol=0, atol=1e-15)


@pytest.mark.parametrize("law", LAWS)
def test_tails_of_shifted_steps(law: NoiseLaw) -> None:
    found = sum_law(Null(law, 4.0, 2, 0))
    line, edge = law_on_line(found), found.largest
    steps = np.array(
        [-(2**62), -edge - 2, -edge - 1, -edge, -3, -1, 0, 1, 7, edge - 1, edge, edge + 5, 2**62]
    )
    naive = [float(line[np.arange(-edge, edge + 1) > k].sum()) for k in steps.tolist()]
    np.testing.assert_allclose(found.above(steps), naive, atol=1e-14)
    for k in (0, 1, 9, edge, edge + 3):
        true = float(line[np.abs(np.arange(-edge, edge + 1)) > k].sum())
        assert found.outside(k) == pytest.approx(true, abs=1e-14)


@settings(max_examples=examples(30))
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-150, 150), min_size=1, max_size=50))
def test_counts_against_a_counter(values: list[int]) -> None:
    law = sum_law(Null("skellam", 4.0, 1, 0))
    edge = law.largest + 1
    clipped = [max(-edge, min(edge, value)) for value in values]
    array, signed, folded = np.array(values, dtype=np.int64), Counter(clipped), Counter(map(abs, clipped))
    assert law.counts(array).tolist() == [signed[k] for k in range(-edge, edge + 1)]
    assert law.magnitudes(array).tolist() == [folded[k] for k in range(edge + 1)]


def test_laws_are_kept_and_read_only() -> None:
    law = sum_law(Null("skellam", 8.0, 3, 5.0))
    assert law is sum_law(Null("skellam", 8.0, 3, 9.0))
    with pytest.raises(ValueError, match="read-only"):
        law.mass[0] = 0


def test_the_allowance_in_integers() -> None:
    assert Null("skellam", 4.0, 1, math.sqrt(10.9)).signal_energy == 10


@pytest.mark.parametrize(
    ("std", "survivors", "allowance"),
    [
        (3.9, 1, 0.0),
        (math.nan, 1, 0.0),
        (4.0, 0, 0.0),
        (MAX_SUM_STD, 2, 0.0),
        (4.0, 1, -1.0),
        (4.0, 1, math.nan),
        (4.0, 1, math.inf),
    ],
)
def test_refuses_laws_out_of_range(std: float, survivors: int, allowance: float) -> None:
    with pytest.raises(UsageError):
        Null("skellam", std, survivors, allowance)


def test_refuses_other_arrays() -> None:
    assert check_values(np.zeros(64, np.int64)) == 64
    with pytest.raises(UsageError, match="at least 64 coordinates"):
        check_values(np.zeros(63, np.int64))
    with pytest.raises(UsageError, match="dtype"):
        check_values(np.zeros(64))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="shape"):
        check_values(np.zeros((64, 2), np.int64))
