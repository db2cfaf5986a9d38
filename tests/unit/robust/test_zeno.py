"""Zeno++: whether its threshold has a scale, measured on a training that goes well."""

from __future__ import annotations

import math
from itertools import product
from typing import Literal

import numpy as np
import pytest

from securefl.base.arrays import F64, I64
from securefl.base.stack import ClusterMeans
from securefl.methods.robust.rules.zeno_plus_plus import PRESETS, ZenoPlusPlus, zeno_plus_plus, zeno_scores
from tests.looped import looped

CLASSES, FEATURES, PARTIES, SIZE = 10, 40, 60, 3
Scale = Literal["sum", "mean", "normalised"]


class Softmax:
    """Softmax regression on ten Gaussian classes, 60 parties with 100 samples, in clusters of 3."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        centres = self.rng.normal(size=(CLASSES, FEATURES)) / math.sqrt(FEATURES) * 3.0
        self.labels = self.rng.integers(CLASSES, size=(PARTIES + 3, 100))
        self.inputs = centres[self.labels] + self.rng.normal(size=(PARTIES + 3, 100, FEATURES))

    def gradient(self, params: F64, inputs: F64, labels: I64) -> F64:
        scores = inputs @ params.reshape(FEATURES, CLASSES)
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(labels)), labels] -= 1.0
        gradient: F64 = (inputs.T @ chances).ravel() / len(labels)
        return gradient

    def validation(self, params: F64) -> F64:
        """A gradient on 128 of the server's own 300 samples, as the paper draws them."""
        inputs, labels = self.inputs[PARTIES:].reshape(-1, FEATURES), self.labels[PARTIES:].ravel()
        batch = self.rng.choice(len(labels), size=128, replace=False)
        return self.gradient(params, inputs[batch], labels[batch])

    def update(self, params: F64, party: int) -> F64:
        """Two epochs in batches of 25."""
        local = params.copy()
        for _ in range(2):
            for batch in np.split(self.rng.permutation(100), 4):
                local -= 0.1 * self.gradient(local, self.inputs[party, batch], self.labels[party, batch])
        return local - params


def first_accepted(rule: ZenoPlusPlus, rounds: int = 12, seed: int = 7) -> int | None:
    """The first round (from 1) in which a cluster with one -10x member passes while the model improves."""
    task = Softmax(seed)
    params = np.zeros(FEATURES * CLASSES)
    for round_ in range(1, rounds + 1):
        updates = np.stack([task.update(params, party) for party in range(PARTIES)])
        attacked = updates.copy()
        attacked[0] *= -10.0
        clusters = PARTIES // SIZE
        stack = ClusterMeans(
            attacked.reshape(clusters, SIZE, -1).mean(axis=1),
            np.full(clusters, float(SIZE)),
            np.full(clusters, SIZE),
            server_gradient=task.validation(params),
        )
        if zeno_plus_plus(stack, rule).kept[0]:
            return round_
        params += updates.mean(axis=0)
    return None


def published(scale: Scale) -> ZenoPlusPlus:
    """Rho and eps of Figures 2 to 4."""
    return ZenoPlusPlus(scale=scale, rho=1e-4, eps=0.2)


def test_the_published_threshold_lets_a_tenfold_sign_flip_pass_as_soon_as_the_model_learns() -> None:
    """The vectors of Algorithm 2 shrink with n_i / n and with the gradient; eps = 0.2 does not."""
    by_sum = first_accepted(published("sum"))
    by_mean = first_accepted(published("mean"))
    assert by_sum is not None
    assert by_mean is not None
    assert by_sum <= 3
    assert by_sum <= by_mean <= 10


def test_normalising_alone_only_delays_it() -> None:
    """Harm is then judged by direction, but only while the squared gradient is longer than eps."""
    normalised = first_accepted(published("normalised"))
    assert normalised is not None
    assert normalised > 1


@pytest.mark.parametrize("seed", range(3))
def test_without_slack_no_scale_matters_and_it_never_passes(seed: int) -> None:
    assert ZenoPlusPlus().eps == 0
    assert first_accepted(ZenoPlusPlus(), seed=seed) is None


@looped("name, scale", product(["sum", "mean", "normalised"], [1e-6, 1e-3, 1.0, 1e3]))
def test_which_thresholds_have_a_scale(name: Scale, scale: float) -> None:
    """Gradient and updates of a smaller loss are shorter; what is accepted should not depend on that."""
    gradient = scale * np.array([1.0, 0.0])
    means = scale * np.array([[-1.0, 0.5], [-0.1, 2.0], [0.3, 1.0], [5.0, 0.0]])
    stack = ClusterMeans(means, np.ones(4), np.ones(4, dtype=np.int64), server_gradient=gradient)
    passed = zeno_plus_plus(stack, published(name)).kept.tolist()
    strict = zeno_plus_plus(stack, ZenoPlusPlus(scale=name)).kept.tolist()
    assert strict == [True, True, False, False]
    assert (passed == [True] * 4) is (scale < 1)


def test_normalised_accepts_by_angle() -> None:
    gradient = np.array([3.0, 4.0])
    angles = np.linspace(0.0, math.pi, 50)
    turned = np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.logspace(-9, 9, 50)[:, np.newaxis]
    means = turned @ np.array([[-0.6, -0.8], [0.8, -0.6]])
    stack = ClusterMeans(means, np.ones(50), np.ones(50, dtype=np.int64), server_gradient=gradient)
    rule = ZenoPlusPlus(rho=0.5, eta=2.0)
    np.testing.assert_array_equal(zeno_plus_plus(stack, rule).kept, np.cos(angles) >= 0.25)


def test_scores_by_hand() -> None:
    stack = ClusterMeans(
        np.array([[-2.0, 0.0], [0.0, 4.0]]),
        np.array([1.0, 3.0]),
        np.ones(2, dtype=np.int64),
        server_gradient=np.array([1.0, 1.0]),
    )
    by_mean = zeno_scores(stack, ZenoPlusPlus(scale="mean", rho=0.5, eta=2.0))
    np.testing.assert_allclose(by_mean, [4.0 - 2.0, -8.0 - 8.0])
    by_sum = zeno_scores(stack, ZenoPlusPlus(scale="sum", rho=0.5, eta=2.0))
    np.testing.assert_allclose(by_sum, [1.0 - 0.125, -6.0 - 4.5])
    by_angle = zeno_scores(stack, ZenoPlusPlus(rho=0.5, eta=2.0))
    np.testing.assert_allclose(by_angle, [2.0 * math.sqrt(2) - 1.0, -2.0 * math.sqrt(2) - 1.0])


def test_what_is_rejected_is_missing_or_not() -> None:
    stack = ClusterMeans(
        np.array([[-1.0], [-3.0], [50.0]]),
        np.array([1.0, 1.0, 2.0]),
        np.ones(3, dtype=np.int64),
        server_gradient=np.array([1.0]),
    )
    assert zeno_plus_plus(stack, ZenoPlusPlus()).vector.tolist() == [-1.0]
    assert zeno_plus_plus(stack, ZenoPlusPlus(divide_by="accepted")).vector.tolist() == [-2.0]


def test_presets_are_what_the_paper_publishes() -> None:
    found = [(rule.rho, rule.eps) for rule in PRESETS.values()]
    assert found == [(1e-4, 0.2), (1e-5, 0.2), (1e-5, 1), (1e-5, 5)]
    assert {rule.batch for rule in PRESETS.values()} == {128}
