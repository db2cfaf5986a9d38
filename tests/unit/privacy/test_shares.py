from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy.components import SharePlan, plan_shares
from securefl.methods.privacy.table import noise_table


def variance(plan: SharePlan) -> Fraction:
    return Fraction(plan.share_std) ** 2


def unknown_variance(plan: SharePlan, survivors: int) -> Fraction:
    """What the adversary does not know of a sum: for an honest member's sake at least that member's noise."""
    return max(1, survivors - plan.colluders) * variance(plan)


@pytest.mark.parametrize("members", [1, 2, 3, 6, 12])
@pytest.mark.parametrize("target", [8.0, 100.3])
def test_every_allowed_sum_carries_its_target(members: int, target: float) -> None:
    """All floors, colluders and dropout counts: never below the target, and at the floor equal to it."""
    for floor in range(1, members + 1):
        for colluders in range(floor):
            plan = plan_shares("threshold", target, floor, colluders)
            assert plan.honest == floor - colluders
            for survivors in range(floor, members + 1):
                unknown, total = unknown_variance(plan, survivors), survivors * variance(plan)
                assert unknown >= Fraction(target) ** 2
                ideal = Fraction(target) ** 2 * (survivors - colluders) / plan.honest
                assert unknown <= ideal * (1 + Fraction(1, 10**15))
                assert total == unknown + colluders * variance(plan)


@pytest.mark.parametrize("colluders", [0, 1, 5, 9])
def test_local_noise_is_enough_whoever_colludes(colluders: int) -> None:
    plan = plan_shares("local", 50.0, 3, colluders)
    assert plan.honest == 1
    assert plan.share_std == 50.0
    for survivors in range(3, 7):
        assert unknown_variance(plan, survivors) == 2500 * max(1, survivors - colluders)
        assert survivors * variance(plan) == 2500 * survivors


def test_threshold_with_h_of_one_saves_nothing() -> None:
    assert plan_shares("threshold", 33.3, 4, 3).share_std == plan_shares("local", 33.3, 4, 3).share_std


@settings(deadline=None)
@given(st.floats(1e-3, 1e6), st.integers(1, 200), st.integers(0, 199))
def test_a_share_is_the_smallest_float_that_suffices(target: float, floor: int, colluders: int) -> None:
    if colluders >= floor:
        return
    plan = plan_shares("threshold", target, floor, colluders)
    assert plan.honest * Fraction(plan.share_std) ** 2 >= Fraction(target) ** 2
    less = math.nextafter(plan.share_std, 0.0)
    assert plan.honest * Fraction(less) ** 2 < Fraction(target) ** 2


@pytest.mark.parametrize("survivors", [5, 6])
def test_sampled_shares_add_up_to_the_plan(survivors: int) -> None:
    """m = 6, f = 2, floor 5: the sum of real draws. Six standard errors of the variance, 2e-9 over seeds."""
    plan = plan_shares("threshold", 60.0, 5, 2)
    table = noise_table("discrete-gaussian", plan.share_std)
    root, n = InsecureSeededEntropy(61), 80_000
    shares = np.array([table.sample(n, root.child("party", i)) for i in range(survivors)])
    for noise, wanted in (
        (shares.sum(axis=0), survivors * variance(plan)),
        (shares[2:].sum(axis=0), unknown_variance(plan, survivors)),
    ):
        found = float(np.square(noise).mean())
        assert abs(found / float(wanted) - 1) < 6 * math.sqrt(2 / n)


@pytest.mark.parametrize(("floor", "colluders"), [(1, 1), (3, 3), (3, 7)])
def test_refuses_a_sum_without_a_secret_share(floor: int, colluders: int) -> None:
    with pytest.raises(ConfigError, match=r"may hold no secret noise at all") as caught:
        plan_shares("threshold", 50.0, floor, colluders, "privacy.placement")
    assert caught.value.path == "privacy.placement"
    assert f"at least {colluders + 1}" in caught.value.remedy


@pytest.mark.parametrize(
    ("target", "floor", "colluders"),
    [(0.0, 3, 1), (-1.0, 3, 1), (math.nan, 3, 1), (math.inf, 3, 1), (5.0, 0, 0), (5.0, 3, -1)],
)
def test_refuses_numbers_that_make_no_sense(target: float, floor: int, colluders: int) -> None:
    with pytest.raises(UsageError):
        plan_shares("threshold", target, floor, colluders)
