"""Label shares from biases, where training is one step whose effect is known in closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.lab.privacy_attacks.labels import distances, learn, on_simplex

CLASSES = 5


def parties(count: int, seed: int) -> tuple[F64, F64]:
    """Changes of biases by one step of rate 0.1 of a model that expects each class alike, and shares."""
    shares = np.random.default_rng(seed).dirichlet(np.full(CLASSES, 0.3), count)
    return 0.1 * (shares - 1 / CLASSES), shares


def test_shares_are_recovered_from_parties_and_clusters() -> None:
    model = learn(*parties(60, seed=1))
    changes, shares = parties(12, seed=2)
    assert distances(model.estimate(changes), shares).max() < 0.01
    means, mixed = changes.reshape(4, 3, -1).mean(axis=1), shares.reshape(4, 3, -1).mean(axis=1)
    assert distances(model.estimate(means), mixed).max() < 0.01


def test_noise_hides_them() -> None:
    changes, shares = parties(60, seed=1)
    noise = np.random.default_rng(0).standard_normal((2, 60, CLASSES))
    model = learn(changes + noise[0], shares)
    others, true = parties(60, seed=2)
    found = distances(model.estimate(others + noise[1]), true).mean()
    prior = distances(np.tile(shares.mean(axis=0), (60, 1)), true).mean()
    assert found > 0.9 * prior


@given(arrays.arrays(np.float64, st.integers(1, 8), elements=st.floats(-3, 3)))
def test_the_nearest_point_of_the_simplex(values: F64) -> None:
    nearest = on_simplex(values)
    assert nearest.sum() == pytest.approx(1)
    assert (nearest >= 0).all()
    # Optimal exactly if no vertex lies further along values - nearest than the point itself does.
    outward = values - nearest
    assert float(outward.max()) <= float(outward @ nearest) + 1e-9


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError):
        learn(np.zeros((1, 3)), np.zeros((1, 3)))
