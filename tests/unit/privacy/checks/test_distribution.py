from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from securefl.base.arrays import F64
from securefl.methods.privacy.checks.distribution import (
    coordinate_allowance,
    coordinates,
    magnitude_allowance,
    magnitudes,
)
from securefl.methods.privacy.checks.null import Null, sum_law
from tests.tiers import examples
from tests.unit.privacy.checks.sums import law_on_line, noise, norm, signals

DIM = 100


def cumulative(null: Null, shift: int, steps: range) -> F64:
    """P(Z + shift <= k) for each step, summed term by term."""
    law = sum_law(null)
    line = np.concatenate([np.zeros(1), np.cumsum(law_on_line(law))])
    below: F64 = line[np.clip(np.array(steps) - shift + law.largest + 1, 0, line.size - 1)]
    return below


def inside(null: Null, shift: int, steps: range) -> F64:
    """P(|Z + shift| <= k) for each step."""
    mirrored = range(-steps.start - 1, -steps.stop - 1, -steps.step)
    return cumulative(null, shift, steps) - cumulative(null, shift, mirrored)


@settings(max_examples=examples(30))
@given(signals)
def test_no_signal_moves_the_law_by_more_than_its_allowance(signal: list[int]) -> None:
    null = Null("skellam", 4.0, 1, norm(signal))
    steps, sizes = range(-180, 181), range(180)
    none = cumulative(null, 0, steps)
    moved = sum((cumulative(null, u, steps) - none for u in signal), np.zeros(len(steps)))
    assert np.abs(moved / DIM).max() <= coordinate_allowance(null, DIM) + 1e-12
    folded = sum((inside(null, 0, sizes) - inside(null, u, sizes) for u in signal), np.zeros(180)) / DIM
    assert folded.max() <= magnitude_allowance(null, DIM) + 1e-12
    assert folded.min() >= -1e-12


def test_the_allowances_are_nearly_attained() -> None:
    null = Null("skellam", 30.0, 1, 10.0)  # one step on each of 100 coordinates
    at_0 = range(1)
    shift = cumulative(null, 0, at_0)[0] - cumulative(null, 1, at_0)[0]
    assert shift == pytest.approx(coordinate_allowance(null, DIM), rel=1e-6)
    sizes = range(20, 45)
    folded = inside(null, 0, sizes) - inside(null, 1, sizes)
    assert folded.max() == pytest.approx(magnitude_allowance(null, DIM), rel=1e-2)


def test_statistics_against_loops() -> None:
    null = Null("skellam", 4.0, 2, 3.0)
    values = noise(null, DIM, 5)
    edge = sum_law(null).largest
    steps = range(-edge, edge + 1)
    seen = [float((values <= k).mean()) for k in steps]
    distance = np.abs(np.array(seen) - cumulative(null, 0, steps)).max()
    found = coordinates(values, null, 0.01)
    assert found.statistic == pytest.approx(distance - coordinate_allowance(null, DIM))

    sizes = range(edge + 1)
    seen = [float((np.abs(values) <= k).mean()) for k in sizes]
    gaps = np.array(seen) - inside(null, 0, sizes)
    found = magnitudes(values, null, 0.01)
    assert found.statistic == pytest.approx(max(gaps.max(), -gaps.min() - magnitude_allowance(null, DIM)))


def test_the_verdict_follows_the_threshold() -> None:
    null = Null("skellam", 16.0, 4, 0.0)
    values = noise(Null("skellam", 16.0, 3, 0.0), 3_000, 6)
    for check in (magnitudes, coordinates):
        for alpha in (0.4, 0.05, 1e-3, 1e-6, 1e-11):
            verdict = check(values, null, alpha)
            assert verdict.ok == (verdict.statistic < verdict.threshold)
            assert verdict.false_alarm_rate == alpha


def test_what_each_of_them_sees() -> None:
    """Too little noise, too much, and a shift: magnitudes are blind to small shifts, on purpose."""
    null = Null("skellam", 16.0, 5, 70.0)
    fewer = noise(Null("skellam", 16.0, 4, 0.0), 25_450, 7)
    more = noise(Null("skellam", 16.0, 6, 0.0), 25_450, 8)
    shifted = noise(null, 25_450, 9) + 2  # a norm of 319 steps, or 9 standard deviations
    assert "too small" in magnitudes(fewer, null, 1e-4).reason
    assert "too large" in magnitudes(more, null, 1e-4).reason
    assert not magnitudes(fewer, null, 1e-4).ok
    assert not magnitudes(more, null, 1e-4).ok
    assert magnitudes(shifted, null, 1e-4).ok
    assert not coordinates(shifted, null, 1e-4).ok
    assert coordinates(noise(null, 25_450, 10), null, 1e-4).ok
