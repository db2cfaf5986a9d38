from __future__ import annotations

import math

import numpy as np
import pytest

from securefl.base.arrays import I64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.methods.privacy.checks.energy import floor_power, hidden_by, noise_floor
from securefl.methods.privacy.checks.null import Null
from securefl.methods.privacy.laws import NoiseLaw
from securefl.methods.privacy.table import noise_table

DIM, STD, SURVIVORS, ALPHA = 600, 20.0, 5, 1e-3
TRIALS = 400


def failing(law: NoiseLaw, silent: int, signal: I64, seed: int) -> float:
    """The share of sums that fail, by drawing them."""
    null = Null(law, STD, SURVIVORS, 1e4)
    entropy = InsecureSeededEntropy(seed)
    failed = 0
    for _ in range(TRIALS):
        drawn = noise_table(law, STD).sample(DIM * (SURVIVORS - silent), entropy)
        total: I64 = drawn.reshape(-1, DIM).sum(axis=0) + signal
        failed += not noise_floor(total, null, ALPHA).ok
    return failed / TRIALS


@pytest.mark.parametrize(
    ("law", "silent", "size"), [("skellam", 1, 0), ("skellam", 2, 20), ("discrete-gaussian", 1, 8)]
)
def test_power_is_how_often_sums_fail(law: NoiseLaw, silent: int, size: int) -> None:
    """Five standard deviations: wrong in 1 of 1.7 million."""
    signal = np.where(np.arange(DIM) % 2, size, -size).astype(np.int64)
    norm = float(np.linalg.norm(signal))
    power = floor_power(Null(law, STD, SURVIVORS, 1e4), DIM, ALPHA, silent * STD**2, norm)
    assert 0.1 < power < 0.97, "else little is compared"
    found = failing(law, silent, signal, silent)
    assert abs(found - power) < 5 * math.sqrt(power * (1 - power) / TRIALS) + 0.01


def test_honest_sums_fail_at_the_level_and_signals_hide_what_is_missing() -> None:
    null = Null("skellam", STD, SURVIVORS, 1e4)
    assert floor_power(null, DIM, ALPHA, 0.0) == pytest.approx(ALPHA, rel=1e-6)
    by_missing = [floor_power(null, DIM, ALPHA, silent * STD**2) for silent in range(6)]
    assert by_missing == sorted(by_missing)
    by_signal = [floor_power(null, DIM, ALPHA, STD**2, norm) for norm in (0, 100, 300, 1000, 5000)]
    assert by_signal == sorted(by_signal, reverse=True)
    assert by_signal[-1] < 1e-9
    assert by_missing[-1] == 1
    assert floor_power(null, DIM, ALPHA, 5 * STD**2, 5000.0) == 0


def test_the_signal_that_hides_missing_noise() -> None:
    null = Null("skellam", STD, SURVIVORS, 1e4)
    found = hidden_by(null, DIM, ALPHA, 2 * STD**2, 0.9)
    assert found is not None
    assert floor_power(null, DIM, ALPHA, 2 * STD**2, found) >= 0.9
    assert floor_power(null, DIM, ALPHA, 2 * STD**2, found + 1e-3 * null.allowance) < 0.9
    assert hidden_by(null, DIM, ALPHA, STD**2, 0.9999) is None
    small = Null("skellam", STD, SURVIVORS, 10.0)
    assert hidden_by(small, DIM, ALPHA, 2 * STD**2, 0.9) == 10.0
