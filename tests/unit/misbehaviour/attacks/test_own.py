from __future__ import annotations

import numpy as np
import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.methods.attacks.parts.gaussian import gaussian
from securefl.methods.attacks.parts.model_negation import model_negation
from securefl.methods.attacks.parts.scale import scale_update

UPDATE = np.array([1.0, -2.0, 0.0, 0.5])


def test_a_scaled_update_keeps_the_original() -> None:
    assert scale_update(UPDATE, -10.0).tolist() == [-10.0, 20.0, 0.0, -5.0]
    assert UPDATE[0] == 1.0


def test_noise_is_normal_with_the_stated_deviation_and_independent_coordinates() -> None:
    d, std = 40_000, 3.0
    noise = gaussian(np.zeros(d), std, InsecureSeededEntropy(5), add=False)
    # Fixed seed; each bound is 4 standard errors of its statistic.
    assert abs(noise.mean()) < 4 * std / np.sqrt(d)
    assert abs(noise.var() / std**2 - 1) < 4 * np.sqrt(2 / d)
    assert abs((noise**4).mean() / std**4 - 3) < 4 * np.sqrt(96 / d)
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 4 / np.sqrt(d)
    inside = np.mean(np.abs(noise) < std)
    assert inside == pytest.approx(0.6827, abs=4 * np.sqrt(0.22 / d))


def test_noise_replaces_the_update_or_is_added_to_it() -> None:
    alone = gaussian(UPDATE, 1.0, InsecureSeededEntropy(1), add=False)
    added = gaussian(UPDATE, 1.0, InsecureSeededEntropy(1), add=True)
    assert np.array_equal(added, UPDATE + alone)
    assert not np.array_equal(alone, gaussian(UPDATE, 1.0, InsecureSeededEntropy(2), add=False))


def test_the_negated_model_is_what_the_server_gets_back() -> None:
    params = np.array([1.5, -0.25, 0.0], dtype=np.float32)
    update = model_negation(params)
    assert update.dtype == np.float64
    assert np.array_equal(params + update, -params)
