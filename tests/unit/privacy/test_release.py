"""Exposure of an update by the sums that contain it, and release events."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.arrays import F64, I64
from securefl.base.errors import UsageError
from securefl.methods.privacy.exposure import exposures, fresh_exposure, leverage
from securefl.methods.privacy.release import ReleaseEvent
from tests.looped import looped

BASE: dict[str, Any] = {"noise_multiplier": 2.0, "steps": 10}


def test_fresh_noise_adds_up() -> None:
    assert fresh_exposure([4]) == 0.25
    assert fresh_exposure([2, 4, 4]) == 1.0
    assert ReleaseEvent(**BASE, survivors=(2, 4, 4)).exposure == 1.0
    assert ReleaseEvent(**BASE, survivors=(1,) * 5).multiplier == pytest.approx(2 / math.sqrt(5))


def test_leverage_of_openings() -> None:
    once = np.array([[1, 1, 1, 1, 0]])
    assert leverage(once, np.ones(5), 0) == pytest.approx(1 / 4)
    assert leverage(once, np.ones(5), 4) == 0.0
    # The same sum again tells nothing new where noise was added once.
    assert leverage(np.vstack([once, once]), np.ones(5), 0) == pytest.approx(1 / 4)
    # One dropout between two openings: the party that left is exposed to within its own noise, no more.
    differ = np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 0]])
    assert leverage(differ, np.ones(5), 0) == pytest.approx(1.0)
    # A colluder's noise does not count; alone with colluders and its noise a party has leverage 1.
    assert leverage(once, np.array([1.0, 1.0, 0.0, 0.0, 1.0]), 0) == pytest.approx(1 / 2)
    assert leverage(once, np.array([3.0, 0.0, 0.0, 0.0, 1.0]), 0) == pytest.approx(1.0)


@given(seed=st.integers(0, 10**6), openings=st.integers(1, 8))
def test_leverage_is_the_diagonal_of_the_projection(seed: int, openings: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, size=(openings, 6))
    projection = np.linalg.pinv(rows.astype(float)) @ rows
    for party in range(6):
        found = leverage(rows, np.full(6, 2.5), party)
        assert found == pytest.approx(projection[party, party], abs=1e-9)
        containing = rows[rows[:, party] == 1]
        if len(containing):
            assert 1 / containing.sum(axis=1).min() - 1e-9 <= found <= 1 + 1e-9


def test_more_noise_of_others_hides_better() -> None:
    rows = np.array([[1, 1, 0], [1, 1, 1]])
    assert leverage(rows, np.array([1.0, 4.0, 1.0]), 0) == pytest.approx(1 / 5)


def test_unequal_variances_as_far_as_their_rank_is_known() -> None:
    """x0 - x2 is known with two small noises, however large the third is; beyond 1e8 it is refused."""
    rows = np.array([[1, 1, 0], [0, 1, 1]])
    assert leverage(rows, np.array([1.0, 1e8, 1.0]), 0) == pytest.approx(1 / 2, rel=1e-6)
    assert leverage(rows, np.array([1e-8, 1.0, 0.0]), 0) == pytest.approx(1.0)
    with pytest.raises(UsageError, match=r"from 1 to 1e\+12 differ by more than 1e\+08 times"):
        leverage(rows, np.array([1.0, 1e12, 1.0]), 0)


def least_variance(rows: I64, once: F64, fresh: F64, party: int) -> float:
    """Of the unbiased estimates of one update, all else known: generalised least squares by Lagrange."""
    openings, column = len(rows), rows[:, party].astype(float)
    noise = rows @ np.diag(once) @ rows.T + np.diag(fresh)
    bordered = np.block([[noise, column[:, None]], [column[None, :], np.zeros((1, 1))]])
    factors = np.linalg.lstsq(bordered, np.eye(openings + 1)[-1], rcond=1e-12)[0][:-1]
    assert factors @ column == pytest.approx(1)
    return float(factors @ noise @ factors)


@given(seed=st.integers(0, 10**6), openings=st.integers(1, 7), mix=st.sampled_from(["once", "fresh", "both"]))
def test_exposure_is_the_inverse_of_the_least_variance(seed: int, openings: int, mix: str) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, size=(openings, 6))
    # Unequal, and some of them without any noise: colluders, or parties that add none.
    once = rng.choice([0.0, 0.5, 1.0, 7.0], size=6) * (mix != "fresh")
    fresh = rng.choice([0.0, 0.25, 3.0], size=openings) * (mix != "once")
    found = exposures(rows, once, fresh)
    exact = np.linalg.matrix_rank(rows[:, once > 0]) if (once > 0).any() else 0
    if mix == "once":
        assert exposures(rows, once, rank=int(exact)) == pytest.approx(found)
    for party in range(6):
        if not rows[:, party].any():
            assert found[party] == 0
            continue
        variance = least_variance(rows, once, fresh, party)
        assert (variance < 1e-9) == math.isinf(found[party])
        if variance >= 1e-9:
            assert found[party] == pytest.approx(1 / variance)
            assert once[party] * found[party] <= 1 + 1e-9


def test_exposure_is_the_distance_of_two_laws_of_sums() -> None:
    """The log likelihood ratio of the sums with and without a shift by 1 has the mean mu^2 / 2."""
    rng = np.random.default_rng(5)
    rows = np.array([[1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]])
    once, fresh = np.array([0.5, 2.0, 0.0, 1.0]), np.array([0.1, 1.0, 0.3])
    noise = np.linalg.inv(rows @ np.diag(once) @ rows.T + np.diag(fresh))
    draws = rng.normal(size=(20_000, 4)) * np.sqrt(once) @ rows.T
    draws += rng.normal(size=(20_000, 3)) * np.sqrt(fresh)
    for party in range(4):
        shift = rows[:, party].astype(float)
        ratio = draws @ noise @ shift + shift @ noise @ shift / 2
        error = float(ratio.std()) / math.sqrt(len(ratio))
        # Five standard errors: once in 1.7 million.
        mu_squared = exposures(rows, once, fresh)[party]
        assert abs(2 * float(ratio.mean()) - mu_squared) < 10 * error < 0.2 * mu_squared
        assert float(ratio.var()) == pytest.approx(mu_squared, rel=0.06)


def test_the_special_cases_of_exposure() -> None:
    rows = np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]])
    h = rows.sum(axis=1)
    fresh = exposures(rows, np.zeros(5), h * 0.5)
    assert 0.5 * fresh == pytest.approx(
        [fresh_exposure(h[rows[:, party] == 1].tolist()) for party in range(5)]
    )
    assert 0.5 * exposures(rows, np.full(5, 0.5)) == pytest.approx(
        [leverage(rows, np.ones(5), party) for party in range(5)]
    )
    # Who adds none is hidden by the others' noise, as far as a combination of sums does not cancel it.
    assert exposures(rows, np.array([0.0, 1.0, 1.0, 1.0, 1.0]))[0] == pytest.approx(4 / 3)
    assert exposures(rows[:1], np.array([0.0, 1.0, 1.0, 1.0, 1.0]))[0] == pytest.approx(1 / 3)
    assert exposures(rows, np.array([0.0, 1.0, 1.0, 1.0, 0.0]))[[0, 4]].tolist() == [math.inf, math.inf]
    assert exposures(rows, np.zeros(5)).tolist() == [math.inf] * 5
    assert exposures(np.zeros((1, 5), np.int64), np.ones(5)).tolist() == [0.0] * 5
    with pytest.raises(UsageError, match="rows must be a matrix"):
        exposures(rows, np.ones(5), np.ones(3))
    with pytest.raises(UsageError, match="differ by more than"):
        exposures(rows, np.ones(5), np.array([1e-9, 1.0]))


@pytest.mark.parametrize(
    ("rows", "variances", "party"),
    [
        ([[1, 2]], [1.0, 1.0], 0),
        ([[1, 1]], [1.0], 0),
        ([[1, 1]], [1.0, 1.0], 2),
        ([[1, 1]], [0.0, 1.0], 0),
        ([[1, 1]], [1.0, -1.0], 0),
        ([[1, 1]], [1.0, math.nan], 0),
    ],
)
def test_openings_that_make_no_sense(rows: list[list[int]], variances: list[float], party: int) -> None:
    with pytest.raises(UsageError):
        leverage(np.array(rows), np.array(variances), party)


def test_no_exposure_without_openings() -> None:
    for survivors in ([], [0], [3, 0]):
        with pytest.raises(UsageError):
            fresh_exposure(survivors)


def test_the_multiplier_of_all_openings() -> None:
    assert ReleaseEvent(**BASE).multiplier == 2.0
    assert ReleaseEvent(**BASE, survivors=(4,)).multiplier == 4.0
    assert ReleaseEvent(**BASE, survivors=(4, 4)).multiplier == pytest.approx(2.0 * math.sqrt(2))
    assert ReleaseEvent(**BASE, survivors=(4, 4), leverage=0.25).multiplier == 4.0
    assert ReleaseEvent(**BASE, mu_slack=0.25).multiplier == pytest.approx(1.6)
    assert ReleaseEvent(**BASE, leverage=math.inf).multiplier == 0.0


@looped(
    "wrong",
    [
        {"noise_multiplier": 0.0},
        {"noise_multiplier": math.inf},
        {"steps": 0},
        {"sampler": "poisson", "records": 10, "batch": 11},
        {"records": 10, "batch": 2},
        {"denominator": 0},
        {"survivors": ()},
        {"survivors": (0,)},
        {"survivors": (4,), "leverage": 0.2},
        {"leverage": math.nan},
        {"mu_slack": -0.1},
        {"delta_slack": 1.0},
        {"unit": "household"},
        {"relation": "adjacent"},
        {"sampler": "poison"},
        {"mechanism": "laplace"},
    ],
)
def test_events_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ReleaseEvent(**(BASE | wrong))


def test_sampling_in_words() -> None:
    drawn: dict[str, Any] = BASE | {"records": 3000, "batch": 16, "denominator": 16}
    assert ReleaseEvent(**BASE).sampling() == "no sampling"
    assert (
        ReleaseEvent(**drawn, sampler="poisson").sampling() == "Poisson sampling, q = 16/3000, denominator 16"
    )
    assert "no amplification" in ReleaseEvent(**drawn, sampler="shuffle").sampling()
