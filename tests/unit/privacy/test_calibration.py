"""The least noise for a budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy.accountant import epsilon, epsilon_on_grid, settled_grid
from securefl.methods.privacy.calibration import calibrate, steps_of_epochs
from securefl.methods.privacy.composition import Accountant
from securefl.methods.privacy.release import ReleaseEvent

EVENT = ReleaseEvent(noise_multiplier=1.0, steps=100, sampler="poisson", records=1000, batch=20)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_no_less_noise_would_do(accountant: Accountant) -> None:
    sigma, spent = calibrate(EVENT, 20.0, 1e-4, accountant, tolerance=0.01)
    assert 18.0 < spent <= 20.0
    assert epsilon([replace(EVENT, noise_multiplier=sigma)], 1e-4, accountant) == spent
    less = [replace(EVENT, noise_multiplier=sigma * 0.99)]
    grid = settled_grid(less, 1e-4)
    assert (epsilon(less, 1e-4, "rdp") if accountant == "rdp" else epsilon_on_grid(less, 1e-4, grid)) > 20.0


def test_shared_noise_needs_less_from_each() -> None:
    alone, shared = (
        calibrate(replace(EVENT, survivors=(h,)), 1.0, 1e-4, "rdp", tolerance=0.01).sigma for h in (1, 4)
    )
    assert shared == pytest.approx(alone / 2, rel=0.02)


@pytest.mark.parametrize("target", [0.0, -1.0, 0.04, 51.0, float("nan")])
def test_targets_out_of_range(target: float) -> None:
    with pytest.raises(ConfigError, match=r"privacy\.epsilon: cannot compute noise"):
        calibrate(EVENT, target, 1e-4, path="privacy.epsilon")


def test_no_noise_that_would_be_right() -> None:
    with pytest.raises(ConfigError, match="less noise"):
        calibrate(replace(EVENT, steps=1, survivors=(10**6,)), 50.0, 1e-2)
    with pytest.raises(ConfigError, match="needs more noise"):
        calibrate(ReleaseEvent(noise_multiplier=1.0, steps=10**9), 0.05, 1e-4, "rdp")
    with pytest.raises(UsageError, match="tolerance"):
        calibrate(EVENT, 1.0, 1e-4, tolerance=0.0)


@pytest.mark.parametrize(
    ("epochs", "records", "batch", "steps"),
    [(8, 3000, 16, 1500), (1, 101, 10, 11), (2, 104, 10, 21), (0.1, 30, 3, 1), (0.001, 100, 10, 1)],
)
def test_a_step_that_the_epochs_do_not_fill_counts(
    epochs: float, records: int, batch: int, steps: int
) -> None:
    assert steps_of_epochs(epochs, records, batch) == steps
