from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.methods.privacy.checks.evidence import calibrate
from securefl.methods.privacy.checks.family import CHECKS, CheckPlan, OpenedSum, check_sums, holm_levels
from securefl.methods.privacy.checks.null import Null
from securefl.methods.privacy.checks.verdict import KINDS
from tests.tiers import examples
from tests.unit.privacy.checks.sums import noise

PLAN = CheckPlan(law="skellam", std=16.0, member_norm=16.0, alpha=0.01)


def opened(survivors: int, noises: int, seed: int, dim: int = 2_000) -> OpenedSum:
    return OpenedSum(noise(Null("skellam", 16.0, noises, 0.0), dim, seed), survivors)


def holm_rejects(p_values: list[float], alpha: float) -> set[int]:
    """By closed testing: a hypothesis is rejected if every set that holds it has a small Bonferroni value."""
    count = len(p_values)
    rejected = set(range(count))
    for mask in range(1, 2**count):
        chosen = [i for i in range(count) if mask >> i & 1]
        if min(p_values[i] for i in chosen) * len(chosen) > alpha:
            rejected -= set(chosen)
    return rejected


@settings(max_examples=examples(30))
@given(st.lists(st.sampled_from([1e-4, 0.001, 0.004, 0.01, 0.0125, 0.02, 0.03, 0.05, 0.5]), max_size=6))
def test_holm_is_closed_testing_with_bonferroni(p_values: list[float]) -> None:
    levels = holm_levels(p_values, 0.05)
    found = {i for i, (p, level) in enumerate(zip(p_values, levels, strict=True)) if p <= level}
    assert found == holm_rejects(p_values, 0.05)


def test_honest_and_dishonest_sums_in_their_order() -> None:
    sums = [opened(4, 4, 1), opened(4, 2, 2), opened(5, 5, 3), opened(3, 6, 4)]
    verdicts = check_sums(sums, PLAN)
    assert [verdict.ok for verdict in verdicts] == [True, False, True, False]
    assert verdicts[1].family.reason.startswith("noise floor: energy")
    assert verdicts[3].family.reason.startswith(("excess energy:", "magnitudes:", "tail counts:"))
    for verdict in verdicts:
        assert verdict.family.false_alarm_rate == 0.01
        assert verdict.family.ok == (verdict.family.statistic < verdict.family.threshold)
        assert len(verdict.checks) == len(CHECKS)
        assert verdict.family.p_value == min(1, len(CHECKS) * min(c.p_value for c in verdict.checks))
        assert verdict.e_values == (*(calibrate(check.p_value) for check in verdict.checks), 1.0)
    assert verdicts[1].e_values[0] > 100


def test_each_check_has_its_name_and_share() -> None:
    (verdict,) = check_sums([opened(4, 4, 1)], PLAN, [np.ones(2_000)])
    assert [check.check for check in verdict.checks] == list(KINDS)
    assert verdict.e_values == tuple(calibrate(check.p_value) for check in verdict.checks)
    assert {check.false_alarm_rate for check in verdict.checks} == {0.01 / 7}


def test_the_same_sum_says_less_among_many() -> None:
    """Bonferroni's price: a sum that fails alone passes as one of 1,000."""
    values, honest = opened(12, 11, 35), opened(12, 12, 9)
    assert not check_sums([values], PLAN)[0].ok
    assert check_sums([values, *[honest] * 99], PLAN)[0].ok


def test_the_survivors_count_and_not_the_plan() -> None:
    values = opened(4, 4, 5)
    assert check_sums([values], PLAN)[0].ok
    assert not check_sums([OpenedSum(values.values, 5)], PLAN)[0].ok


def test_the_allowance_grows_with_the_members() -> None:
    assert PLAN.null(7) == Null("skellam", 16.0, 7, 112.0)


def test_no_sums_no_verdicts() -> None:
    assert check_sums([], PLAN) == ()


def test_nothing_is_written_to() -> None:
    one = opened(4, 4, 6)
    one.values.flags.writeable = False
    reference = np.ones(2_000)
    reference.flags.writeable = False
    assert check_sums([one], PLAN, [reference]) == check_sums([one], PLAN, [reference])


def test_refusals() -> None:
    with pytest.raises(UsageError, match="at least 1, found 0"):
        check_sums([OpenedSum(np.zeros(100, np.int64), 0)], PLAN)
    with pytest.raises(UsageError, match="level"):
        check_sums([opened(4, 4, 1)], CheckPlan(law="skellam", std=16.0, member_norm=1.0, alpha=1e-12))
    with pytest.raises(UsageError, match="std must be at least"):
        check_sums([opened(4, 4, 1)], CheckPlan(law="skellam", std=1.0, member_norm=1.0))
