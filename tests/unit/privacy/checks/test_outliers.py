from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from securefl.methods.privacy.checks.null import Null, sum_law
from securefl.methods.privacy.checks.outliers import expected_counts, maximum, tail_counts
from securefl.methods.privacy.checks.tails import poisson_tail
from tests.tiers import examples
from tests.unit.privacy.checks.sums import noise, norm, outside, signals

DIM = 200
NULL = Null("skellam", 4.0, 1, 0.0)


@settings(max_examples=examples(30))
@given(signals)
def test_no_signal_puts_more_beyond_a_level_than_is_counted(signal: list[int]) -> None:
    null = Null("skellam", 4.0, 1, norm(signal))
    law = sum_law(null)
    for level in expected_counts(null, DIM):
        rest = (DIM - len(signal)) * law.outside(level.step)
        true = rest + sum(outside(law, u, level.step) for u in signal)
        assert true <= level.mean * (1 + 1e-9) + 1e-12


@settings(max_examples=examples(30))
@given(signals)
def test_no_signal_makes_a_large_maximum_more_likely_than_its_p_value(signal: list[int]) -> None:
    null = Null("skellam", 4.0, 1, norm(signal))
    law = sum_law(null)
    for largest in (5, 15, 25, 40, 66, 80):
        rest = 1 - law.outside(largest - 1)
        true = 1 - rest ** (DIM - len(signal)) * math.prod(1 - outside(law, u, largest - 1) for u in signal)
        values = np.zeros(DIM, dtype=np.int64)
        values[3] = -largest
        assert maximum(values, null, 0.01).p_value >= true - 1e-10


def test_the_spike_that_is_allowed_passes_and_no_larger_one() -> None:
    null = Null("skellam", 16.0, 4, 320.0)  # ten standard deviations
    values = noise(null, 1_000, 11)
    values[7] = 330
    assert maximum(values, null, 0.01).ok
    assert tail_counts(values, null, 0.01).ok
    values[7] = 430
    assert not maximum(values, null, 0.01).ok


def test_the_limit_is_where_the_verdict_turns() -> None:
    for null in (NULL, Null("skellam", 9.0, 3, 100.0)):
        for alpha in (0.3, 0.01, 1e-6):
            values = np.zeros(DIM, dtype=np.int64)
            limit = int(maximum(values, null, alpha).threshold)
            values[0] = limit
            assert maximum(values, null, alpha).ok
            values[0] = -limit - 1
            assert not maximum(values, null, alpha).ok


def test_without_signal_the_maximum_has_the_union_bound() -> None:
    law = sum_law(NULL)
    values = np.zeros(DIM, dtype=np.int64)
    values[0] = 17
    assert maximum(values, NULL, 0.01).p_value == pytest.approx(DIM * law.outside(16))


def test_levels_are_dyadic_and_reach_beyond_the_allowance() -> None:
    levels = expected_counts(NULL, 10_000)
    law = sum_law(NULL)
    assert [level.step for level in levels] == sorted({level.step for level in levels})
    assert levels[0].mean <= 10_000 / 8
    assert 10_000 * law.outside(levels[-1].step) <= 1
    far = expected_counts(Null("skellam", 4.0, 1, 400.0), 10_000)
    assert far[-1].step > 300


def test_counts_against_loops() -> None:
    null = Null("skellam", 4.0, 1, 90.0)
    values = noise(null, 5_000, 12)
    values[:40] = 14
    values[40:43] = -80
    verdict = tail_counts(values, null, 0.01)
    levels = expected_counts(null, 5_000)
    counts = [int((np.abs(values) > level.step).sum()) for level in levels]
    tails = [poisson_tail(level.mean, count) for level, count in zip(levels, counts, strict=True)]
    assert verdict.p_value == pytest.approx(len(levels) * min(tails))
    assert verdict.statistic == counts[tails.index(min(tails))]


def test_the_critical_count_is_where_the_verdict_turns() -> None:
    null = Null("skellam", 4.0, 1, 20.0)
    step = expected_counts(null, 2_000)[-1].step
    verdicts = []
    for count in range(1, 60):
        values = np.zeros(2_000, dtype=np.int64)
        values[:count] = step + 1
        verdicts.append(tail_counts(values, null, 0.001))
    assert verdicts[0].ok
    assert not verdicts[-1].ok
    assert all(verdict.ok == (verdict.statistic <= verdict.threshold) for verdict in verdicts)


def test_an_allowance_beyond_all_levels_tells_nothing_but_does_not_fail() -> None:
    null = Null("skellam", 4.0, 1, 1e5)
    values = noise(Null("skellam", 16.0, 1, 0.0), DIM, 13)
    assert tail_counts(values, null, 0.01).ok
    assert maximum(values, null, 0.01).ok


def test_giant_values() -> None:
    values = np.zeros(DIM, dtype=np.int64)
    assert maximum(values, NULL, 0.01).ok
    values[0] = -(2**63)
    assert not maximum(values, NULL, 0.01).ok
    values[:30] = 2**62
    assert not tail_counts(values, NULL, 0.01).ok
