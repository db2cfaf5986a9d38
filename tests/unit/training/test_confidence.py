"""Confidences against the loss that they stand for."""

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from securefl.training.data.shards import Shard
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import to_vector
from securefl.training.models.parts.mlp import Mlp
from securefl.training.sgd.evaluation import Confidences


def test_the_loss_follows_from_the_confidence() -> None:
    generator = np.random.default_rng(1)
    shard = Shard(
        generator.standard_normal((50, 6)).astype(np.float32), generator.integers(0, 3, 50), 3, (6,)
    )
    module = build_model(Mlp(hidden=(5,)), (6,), 3, seed=2)
    logits = Confidences(module, shard).of(to_vector(module))
    losses = cross_entropy(module(torch.from_numpy(shard.x)), torch.from_numpy(shard.y), reduction="none")
    np.testing.assert_allclose(np.log1p(np.exp(-logits)), losses.detach().numpy(), rtol=1e-4)


def test_broken_models_know_nothing() -> None:
    shard = Shard(np.ones((2, 6), np.float32), np.array([0, 1]), 3, (6,))
    module = build_model(Mlp(hidden=(5,)), (6,), 3, seed=2)
    assert (Confidences(module, shard).of(np.full(len(to_vector(module)), np.inf, np.float32)) == -700).all()
