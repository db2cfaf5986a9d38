"""Samples from gradients: exact where one sample alone activates a neuron, near where they are searched."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from securefl.base.arrays import F64, I64
from securefl.base.errors import UsageError
from securefl.training.models.catalogue import build_model
from securefl.training.models.device import limit_threads
from securefl.training.models.flatten import to_vector
from securefl.training.models.parts.mlp import Mlp
from securefl.training.sgd.inversion import Search, from_neurons, match_gradient

SHAPE = (8, 8)
SAMPLES = np.random.default_rng(2).standard_normal((4, *SHAPE)).astype(np.float32)
LABELS: I64 = np.array([0, 2, 1, 2])


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    limit_threads()


def gradient(module: torch.nn.Module, count: int) -> F64:
    loss = cross_entropy(module(torch.from_numpy(SAMPLES[:count])), torch.from_numpy(LABELS[:count]))
    slopes = torch.autograd.grad(loss, list(module.parameters()))
    return torch.cat([slope.reshape(-1) for slope in slopes]).double().numpy()


def test_one_sample_is_read_off_every_neuron_that_it_activates() -> None:
    module = build_model(Mlp(hidden=(32,)), SHAPE, 3, seed=1)
    found = from_neurons(module, -0.1 * gradient(module, 1))
    assert 8 < len(found) < 24
    np.testing.assert_allclose(found, np.tile(SAMPLES[0].reshape(1, -1), (len(found), 1)), atol=1e-3)


def test_of_several_samples_some_are_read_off_exactly() -> None:
    module = build_model(Mlp(hidden=(64,)), SHAPE, 3, seed=1)
    found = from_neurons(module, gradient(module, 4))
    far = np.abs(found[:, None] - SAMPLES.reshape(1, 4, -1)).max(axis=2)
    # A neuron is activated by one of four samples alone with probability 1/4: 16 of 64.
    assert (far.min(axis=1) < 1e-3).sum() > 6
    assert (far.min(axis=0) < 1e-3).sum() >= 3


def test_a_search_finds_one_sample() -> None:
    module = build_model(Mlp(hidden=(32,)), SHAPE, 3, seed=1)
    params, wanted = to_vector(module), gradient(module, 1)
    found = match_gradient(
        module, params, wanted, LABELS[:1], SHAPE, seed=5, search=Search(steps=60, smoothness=0.0)
    )
    assert np.corrcoef(found.ravel(), SAMPLES[0].ravel())[0, 1] > 0.9


def test_what_does_not_begin_with_a_dense_layer_is_refused() -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(72, 3))
    with pytest.raises(UsageError, match="dense"):
        from_neurons(module, np.zeros(sum(p.numel() for p in module.parameters())))
