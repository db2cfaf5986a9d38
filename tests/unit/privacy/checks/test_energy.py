from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import F64, I64
from securefl.base.errors import UsageError
from securefl.methods.privacy.checks.energy import excess_energy, noise_floor
from securefl.methods.privacy.checks.family import Check
from securefl.methods.privacy.checks.null import Null, SumLaw, sum_law
from securefl.methods.privacy.laws import NoiseLaw
from tests.unit.privacy.checks.sums import law_on_line, noise

DIM = 64
POINTS = 1 << 19


def energy_law(law: SumLaw, signal: list[int]) -> F64:
    """P(|mu + Z|^2 = e) for e = 0 ... by discrete Fourier transforms, to about 1e-15."""
    line, steps = law_on_line(law), np.arange(-law.largest, law.largest + 1)
    transform = np.ones(POINTS // 2 + 1, dtype=np.complex128)
    for size in set(signal):
        one = np.zeros(POINTS)
        np.add.at(one, np.square(steps + size), line)
        transform *= np.fft.rfft(one) ** signal.count(size)
    return np.maximum(np.fft.irfft(transform, POINTS), 0.0)


def with_energy(energy: int) -> I64:
    """A vector of integers with this squared norm: the largest square that fits, again and again."""
    values = np.zeros(DIM, dtype=np.int64)
    for i in range(DIM):
        values[i] = int(np.sqrt(energy))
        energy -= int(values[i]) ** 2
    assert energy == 0
    return values


@pytest.mark.parametrize("law", ["skellam", "discrete-gaussian"])
@pytest.mark.parametrize("signal", [[], [12], [2] * 36], ids=["none", "one coordinate", "many"])
def test_p_values_against_the_exact_law(law: NoiseLaw, signal: list[int]) -> None:
    """At its worst: 64 coordinates, 4 steps, one party. Lower tails ignore the signal: they are larger."""
    null = Null(law, 4.0, 1, 12.0 if signal else 0.0)
    exact = energy_law(sum_law(null), signal + [0] * (DIM - len(signal)))
    above, below = np.cumsum(exact[::-1])[::-1], np.cumsum(exact)
    for level, error in ((0.3, 0.02), (0.01, 0.03), (1e-3, 0.04), (1e-6, 0.2)):
        high = int(np.searchsorted(-above, -level))
        found = excess_energy(with_energy(high), null, 0.01).p_value
        assert found == pytest.approx(above[high], rel=error)
        low = int(np.searchsorted(below, level))
        found = noise_floor(with_energy(low), null, 0.01).p_value
        assert found >= below[low] * (1 - error)
        if not signal:
            assert found == pytest.approx(below[low], rel=error)


@pytest.mark.parametrize("check", [noise_floor, excess_energy])
@pytest.mark.parametrize("alpha", [0.3, 0.01, 1e-9])
def test_the_threshold_is_where_the_p_value_is_alpha(check: Check, alpha: float) -> None:
    null = Null("skellam", 10.0, 5, 40.0)
    threshold = check(noise(null, DIM, 1), null, alpha).threshold
    expected = DIM * null.variance
    sign = 1 if check is excess_energy else -1
    for factor, ok in ((0.999, True), (1.001, False)):
        values = with_energy(round(expected + sign * factor * threshold))
        assert check(values, null, alpha).ok is ok


def test_signs_and_order_do_not_matter() -> None:
    null = Null("skellam", 10.0, 2, 30.0)
    values = noise(null, 300, 2)
    for check in (noise_floor, excess_energy):
        assert check(values, null, 0.01) == check(-values[::-1].copy(), null, 0.01)


def test_a_skipper_and_a_scaler() -> None:
    null = Null("skellam", 16.0, 5, 80.0)
    four = noise(Null("skellam", 16.0, 4, 0), 25_450, 3)
    skipped = noise_floor(four, null, 1e-6)
    assert not skipped.ok
    assert skipped.statistic > skipped.threshold > 0
    assert skipped.reason.startswith("energy -2")
    assert excess_energy(four, null, 1e-6).ok
    scaled = excess_energy(four + 2 * noise(Null("skellam", 16.0, 1, 0), 25_450, 4), null, 1e-6)
    assert not scaled.ok
    assert scaled.statistic > scaled.threshold > 0


def test_giant_values_fail_and_overflow_nothing() -> None:
    null = Null("skellam", 4.0, 1, 1.0)
    values = np.full(64, -(2**63), dtype=np.int64)
    assert not excess_energy(values, null, 0.01).ok
    assert noise_floor(values, null, 0.01).ok


@pytest.mark.parametrize("alpha", [0.0, 1e-13, 0.6, float("nan")])
def test_refuses_levels(alpha: float) -> None:
    with pytest.raises(UsageError, match="level"):
        noise_floor(np.zeros(64, np.int64), Null("skellam", 4.0, 1, 0), alpha)
