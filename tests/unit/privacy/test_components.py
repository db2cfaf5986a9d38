"""Dropout-exact noise: the same variance in every sum that can be opened."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy.components import ComponentPlan, plan_components
from securefl.methods.privacy.table import noise_table


@st.composite
def plans(draw: st.DrawFn) -> tuple[ComponentPlan, int]:
    colluders = draw(st.integers(0, 10))
    fewest = draw(st.integers(colluders + 1, 30))
    planned = draw(st.integers(fewest, fewest + 20))
    return plan_components(draw(st.floats(0.1, 1e6)), planned, fewest, colluders), fewest


@given(plans())
def test_every_sum_that_can_be_opened_has_the_target_and_hardly_more(made: tuple[ComponentPlan, int]) -> None:
    plan, fewest = made
    target = Fraction(plan.target) ** 2
    for survivors in range(fewest, plan.planned + 1):
        unknown = (survivors - plan.colluders) * Fraction(plan.kept_std(survivors)) ** 2
        assert target <= unknown <= target * (1 + Fraction(1, 10**12))
    assert (plan.planned + 1 - plan.colluders) * Fraction(plan.kept_std(plan.planned + 1)) ** 2 > target
    with pytest.raises(UsageError, match="survivors must be"):
        plan.kept_std(fewest - 1)


def test_the_figures_of_a_cluster_of_six() -> None:
    plan = plan_components(1000.0, planned=6, min_survivors=5, colluders=2)
    assert plan.share_std == pytest.approx(1000 / 4**0.5)
    assert plan.stds == pytest.approx(((1e6 / 3 - 1e6 / 4) ** 0.5,))


@pytest.mark.parametrize("survivors", [3, 4, 5])
def test_sampled_sums_have_the_variance(survivors: int) -> None:
    """Within 1 %, more than 4 standard errors: 400,000 draws have one of 0.22 %."""
    plan = plan_components(300.0, planned=5, min_survivors=3, colluders=1)
    entropy = InsecureSeededEntropy(survivors)
    size = 400_000
    total = np.zeros(size, dtype=np.int64)
    for member in range(survivors):
        for part, std in enumerate((plan.share_std, *plan.stds[: 5 - survivors])):
            total += noise_table("skellam", std).sample(size, entropy.child(member, part))
    wanted = 300.0**2 * survivors / (survivors - 1)
    assert float(total.var()) == pytest.approx(wanted, rel=0.01)


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="may hold no secret noise at all"):
        plan_components(10.0, planned=5, min_survivors=2, colluders=2)
    for target, planned, fewest in ((0.0, 3, 2), (float("nan"), 3, 2), (1.0, 3, 0), (1.0, 3, 4)):
        with pytest.raises(UsageError):
            plan_components(target, planned, fewest, 0)
