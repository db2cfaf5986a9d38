"""Gradients of the server's own data, against torch's own backward pass and against local training."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.methods.robust.rules.fltrust import FlTrust
from securefl.methods.robust.rules.inner_product import InnerProduct
from securefl.methods.robust.rules.zeno_plus_plus import ZenoPlusPlus
from securefl.scenario.aggregation import Rule
from securefl.scenario.model import Model
from securefl.scenario.scenario import Training
from securefl.training.data.shards import Shard
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import dimension, load_vector, to_vector
from securefl.training.models.parts.custom import CustomModel
from securefl.training.models.parts.lstm import Lstm
from securefl.training.models.parts.mlp import Mlp
from securefl.training.models.parts.softmax import Softmax
from securefl.training.sgd.outcomes import GradientNotFiniteError, TrainingDivergedError
from securefl.training.sgd.server_gradient import PIECE, ServerGradient
from securefl.training.sgd.trainer import LocalTrainer
from tests.unit.training.builders import blobs

CPU = torch.device("cpu")
OWN = InsecureSeededEntropy(5)


def made(
    shard: Shard,
    rule: Rule,
    config: Training | None = None,
    model: Model | None = None,
    own: Entropy = OWN,
) -> tuple[ServerGradient, F32]:
    """What is tested, and parameters to ask it about."""
    module = build_model(model or Mlp(hidden=(5,)), shard.input_shape, shard.classes, seed=3)
    return ServerGradient(module, shard, rule, config or Training(), CPU, own), to_vector(module)


def by_hand(shard: Shard, params: F32, rows: torch.Tensor) -> F64:
    """One backward pass."""
    module = build_model(Mlp(hidden=(5,)), shard.input_shape, shard.classes, seed=0)
    load_vector(module, params)
    x, y = torch.from_numpy(shard.x)[rows], torch.from_numpy(shard.y)[rows]
    losses = torch.nn.functional.cross_entropy(module(x), y, reduction="none")
    torch.autograd.backward(losses.sum() / len(rows))
    slopes = [p.grad.reshape(-1) for p in module.parameters() if p.grad is not None]
    gradient: F64 = torch.cat(slopes).numpy().astype(np.float64)
    return gradient


def drawn(shard: Shard, round_: int, reclustering: int, batch: int) -> torch.Tensor:
    """The rows that a batch consists of, by the names of its randomness."""
    seed = int.from_bytes(OWN.child("sampling", round_, reclustering).draw(8), "big")
    return torch.randperm(len(shard.y), generator=torch.Generator().manual_seed(seed))[:batch]


def test_a_batch_of_its_own_for_every_reclustering_and_round() -> None:
    shard = blobs(40)
    server, params = made(shard, ZenoPlusPlus(batch=8))
    found = server.gradients(4, params, (0, 2))
    for gradient, r in zip(found, (0, 2), strict=True):
        assert gradient.dtype == np.float64
        expected = by_hand(shard, params, drawn(shard, 4, r, 8))
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)
    assert np.abs(found[0] - found[1]).max() > 1e-3
    (other,) = server.gradients(5, params, (0,))
    assert np.abs(found[0] - other).max() > 1e-3


@pytest.mark.parametrize("samples", [20, PIECE, PIECE + 1, 2 * PIECE + 100])
def test_the_inner_product_rule_gets_one_gradient_on_all_samples_a_round(samples: int) -> None:
    shard = blobs(samples)
    server, params = made(shard, InnerProduct(gamma=0.5))
    first, second = server.gradients(4, params, (0, 2))
    assert first is second
    np.testing.assert_allclose(first, by_hand(shard, params, torch.arange(samples)), rtol=1e-4, atol=1e-6)
    assert server.gradients(5, params, (1,))[0].tobytes() == first.tobytes()


def test_few_samples_are_taken_whole() -> None:
    shard = blobs(12)
    server, params = made(shard, ZenoPlusPlus(batch=128))
    (gradient,) = server.gradients(0, params, (0,))
    np.testing.assert_allclose(gradient, by_hand(shard, params, torch.arange(12)), rtol=1e-4, atol=1e-6)


def test_the_same_entropy_gives_the_same_bits_whatever_came_before() -> None:
    shard = blobs(40)
    one, params = made(shard, ZenoPlusPlus(batch=8))
    two, _ = made(shard, ZenoPlusPlus(batch=8))
    two.gradients(0, params + np.float32(1), (0, 1))
    state = torch.random.get_rng_state()
    (first,), (second,) = one.gradients(1, params, (1,)), two.gradients(1, params, (1,))
    assert first.tobytes() == second.tobytes()
    assert torch.equal(state, torch.random.get_rng_state())
    elsewhere, _ = made(shard, ZenoPlusPlus(batch=8), own=InsecureSeededEntropy(6))
    assert elsewhere.gradients(1, params, (1,))[0].tobytes() != first.tobytes()


def test_fltrust_gets_minus_what_the_servers_training_makes_once_a_round() -> None:
    shard, config = blobs(30), Training(epochs=2, batch_size=7, learning_rate=0.05, momentum=0.9)
    server, params = made(shard, FlTrust(), config)
    found = server.gradients(3, params, (0, 1))
    module = build_model(Mlp(hidden=(5,)), shard.input_shape, shard.classes, seed=0)
    after = LocalTrainer(module, shard, config, CPU).train(params, OWN.child("training", 3))
    assert len(found) == 2
    for gradient in found:
        assert gradient.tobytes() == (params.astype(np.float64) - after).tobytes()
    assert np.dot(found[0], by_hand(shard, params, torch.arange(30))) > 0, "it points uphill"


@pytest.mark.parametrize("name", ["with_frozen_bias", "with_frozen_backbone", "with_unused_layer"])
def test_slopes_stand_where_training_moves_something_and_frozen_parameters_have_none(name: str) -> None:
    shard, model = blobs(20), CustomModel(factory=f"tests.unit.training.factories:{name}")
    server, params = made(shard, ZenoPlusPlus(), model=model)
    (gradient,) = server.gradients(0, params, (0,))
    module = build_model(model, shard.input_shape, shard.classes, seed=3)
    config = Training(batch_size=20, learning_rate=1.0)
    moved = LocalTrainer(module, shard, config, CPU).train(params, OWN).astype(np.float64) - params
    assert len(gradient) == dimension(module)
    if name == "with_unused_layer":
        assert not gradient[-6:].any()
    np.testing.assert_allclose(-gradient, moved, rtol=1e-3, atol=1e-5)


def test_of_a_text_every_position_counts_alike() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 5, (2, 12, 6))
    shard, model = Shard(x, y, 5, (6,)), Lstm(hidden=4, embedding=3, layers=1)
    module = build_model(model, (6,), 5, seed=3, tokens=True)
    params = to_vector(module)
    (gradient,) = ServerGradient(module, shard, ZenoPlusPlus(), Training(), CPU, OWN).gradients(
        0, params, (0,)
    )
    parts = []
    for line, labels in zip(torch.from_numpy(x), torch.from_numpy(y), strict=True):
        module.zero_grad()
        losses = torch.nn.functional.cross_entropy(module(line[None]), labels[None], reduction="none")
        torch.autograd.backward(losses.sum())
        parts.append(torch.cat([p.grad.reshape(-1) for p in module.parameters() if p.grad is not None]))
    np.testing.assert_allclose(gradient, torch.stack(parts).sum(dim=0) / 72, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", [ZenoPlusPlus(), FlTrust(), InnerProduct(gamma=1)])
def test_no_finite_gradient_no_answer(rule: Rule) -> None:
    shard = blobs(20)
    server, params = made(shard, rule, model=Softmax())
    broken = np.full_like(params, np.float32(3e38))
    error = TrainingDivergedError if isinstance(rule, FlTrust) else GradientNotFiniteError
    with pytest.raises(error, match="finite"):
        server.gradients(0, broken, (0,))
    assert np.isfinite(server.gradients(0, params, (0,))[0]).all()


def test_parameters_of_another_model_are_a_bug() -> None:
    server, params = made(blobs(20), ZenoPlusPlus())
    with pytest.raises(UsageError):
        server.gradients(0, params[:-1], (0,))
