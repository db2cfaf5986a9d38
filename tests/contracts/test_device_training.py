"""Contract of local training and evaluation on any device, against ``torch.optim`` in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from securefl.base.arrays import F32, F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.scenario import LocalMethod, Training
from securefl.training.data.shards import Shard
from securefl.training.local_methods.parts.fedprox import FedProx
from securefl.training.local_methods.parts.scaffold import Scaffold
from securefl.training.models.catalogue import build_model
from securefl.training.models.controls import add_controls
from securefl.training.models.flatten import to_vector
from securefl.training.models.generators import seed_torch
from securefl.training.models.parts.cnn import Cnn
from securefl.training.models.parts.lstm import Lstm
from securefl.training.models.parts.mlp import Mlp
from securefl.training.sgd.evaluation import Evaluator
from securefl.training.sgd.outcomes import TrainingDivergedError
from securefl.training.sgd.trainer import LocalTrainer
from tests.contracts.devices import (
    CLASSES,
    KINKED,
    SHAPE,
    SMOOTH,
    WANTED,
    device,
    distance,
    flat,
    in_double,
    seed_of,
    shard_of,
    smooth_model,
)

__all__ = ["device"]

PARTY = 5
CONFIG = Training(batch_size=8, epochs=3, learning_rate=0.05, momentum=0.5, weight_decay=0.01)


def trained(module: nn.Module, shard: Shard, config: Training, device: torch.device) -> F32:
    start = to_vector(module)
    return LocalTrainer(module, shard, config, device).train(start, InsecureSeededEntropy(PARTY))


def by_torch(module: nn.Module, start: F32, shard: Shard, config: Training) -> F64:
    """The same batches by ``torch.optim.SGD``, in double precision."""
    twin = in_double(module, start)
    optimiser = torch.optim.SGD(
        twin.parameters(), config.learning_rate, config.momentum, weight_decay=config.weight_decay
    )
    order = torch.Generator().manual_seed(seed_of(PARTY))
    x, y = torch.from_numpy(shard.x), torch.from_numpy(shard.y)
    x = x.double() if x.is_floating_point() else x
    for _ in range(config.epochs):
        rows = torch.randperm(len(y), generator=order)
        for batch in torch.tensor_split(rows, math.ceil(len(y) / config.batch_size)):
            optimiser.zero_grad()
            cross_entropy(twin(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return flat(twin)


def text_shard(samples: int) -> Shard:
    x = np.random.default_rng(1).integers(0, 7, (samples, 12))
    return Shard(x, np.roll(x, -1, axis=1), 7, (12,))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Shard], float]] = {
    "smooth": (smooth_model, shard_of, SMOOTH),
    "tanh": (lambda: build_model(Mlp(hidden=(9,), activation="tanh"), SHAPE, CLASSES, 3), shard_of, SMOOTH),
    "lstm": (
        lambda: build_model(Lstm(hidden=6, embedding=3), (12,), 7, 3, tokens=True),
        text_shard,
        SMOOTH,
    ),
    "cnn": (lambda: build_model(Cnn(channels=(3, 4), dense=8), SHAPE, CLASSES, 3), shard_of, KINKED),
}


# torch computes an LSTM on any other device than a CPU by an operation that CPUs, and so the fake one, lack.
@pytest.mark.parametrize("model", [name for name in MODELS if (name, WANTED) != ("lstm", "fake")])
@pytest.mark.parametrize("config", [CONFIG, Training(batch_size=7, learning_rate=0.1)])
def test_training_is_sgd(model: str, config: Training, device: torch.device) -> None:
    make, data, tolerance = MODELS[model]
    module, shard = make(), data(43)
    start = to_vector(module)
    expected = by_torch(module, start, shard, config)
    assert distance(trained(module, shard, config, device), expected, start) < tolerance


@pytest.mark.parametrize("method", [FedProx(mu=0.3), Scaffold()])
def test_local_methods_agree_with_the_cpu(method: LocalMethod, device: torch.device) -> None:
    """Two trainings in a row: SCAFFOLD keeps a control variate between them."""

    def two(where: torch.device) -> list[F32]:
        module = smooth_model()
        if method.controls:
            add_controls(module)
        config = Training(batch_size=8, learning_rate=0.05, method=method)
        trainer = LocalTrainer(module, shard_of(43), config, where)
        first = trainer.train(to_vector(module), InsecureSeededEntropy(1))
        return [first, trainer.train(first, InsecureSeededEntropy(2))]

    start = to_vector(add_controls(smooth_model()) if method.controls else smooth_model())
    for found, expected in zip(two(device), two(torch.device("cpu")), strict=True):
        assert distance(found, expected.astype(np.float64), start) < SMOOTH


def test_a_diverged_training_is_reported_and_leaves_nothing(device: torch.device) -> None:
    module, shard = smooth_model(), shard_of(24)
    start = to_vector(module)
    config = Training(batch_size=8, epochs=3, learning_rate=1e30)
    trainer = LocalTrainer(module, shard, config, device)
    with pytest.raises(TrainingDivergedError):
        trainer.train(start, InsecureSeededEntropy(PARTY))
    again = trained(smooth_model(), shard, CONFIG, device)
    assert distance(again, by_torch(smooth_model(), start, shard, CONFIG), start) < SMOOTH


def test_global_generators_are_left_alone(device: torch.device) -> None:
    """Dropout draws from a seeded generator of the device, which is restored afterwards."""
    model = Mlp(hidden=(9,), dropout=0.5)

    def train() -> F32:
        return trained(build_model(model, SHAPE, CLASSES, 3), shard_of(20), CONFIG, device)

    def states() -> list[torch.Tensor]:
        gpu = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
        return [torch.get_rng_state(), *gpu]

    before, first = states(), train()
    for state, was in zip(states(), before, strict=True):
        assert torch.equal(state, was)
    np.testing.assert_allclose(train(), first, rtol=1e-4, atol=1e-6)


def test_evaluation(device: torch.device) -> None:
    """More samples than one forward pass takes."""
    module, shard = smooth_model(), shard_of(1500)
    start = to_vector(module)
    found = Evaluator(module, shard, device).evaluate(start)
    with torch.no_grad():
        scores = in_double(module, start).eval()(torch.from_numpy(shard.x).double())
        y = torch.from_numpy(shard.y)
    assert found.loss == pytest.approx(float(cross_entropy(scores, y)), rel=1e-5)
    assert found.accuracy == pytest.approx(float((scores.argmax(1) == y).double().mean()), abs=2 / 1500)


def test_a_broken_model_is_a_result(device: torch.device) -> None:
    module = smooth_model()
    spoilt = to_vector(module)
    spoilt[-1] = np.nan
    found = Evaluator(module, shard_of(8), device).evaluate(spoilt)
    assert (found.accuracy, found.loss) == (0.0, math.inf)


def test_the_generator_of_the_named_gpu_is_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.cuda.manual_seed`` seeds the current GPU, which need not be the one that computes."""
    seeds, current = {0: 11, 1: 22}, [0]

    class Current:
        def __init__(self, chosen: torch.device) -> None:
            self._chosen = 0 if chosen.index is None else chosen.index

        def __enter__(self) -> None:
            self._before, current[0] = current[0], self._chosen

        def __exit__(self, *_: object) -> None:
            current[0] = self._before

    def index(chosen: torch.device) -> int:
        return current[0] if chosen.index is None else chosen.index

    monkeypatch.setattr(torch.cuda, "device", Current)
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda seed: seeds.__setitem__(current[0], seed))
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda chosen: seeds[index(chosen)])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, at: seeds.__setitem__(index(at), state))
    for name, inside in (("cuda:1", {0: 11, 1: 7}), ("cuda:0", {0: 7, 1: 22}), ("cuda", {0: 7, 1: 22})):
        with seed_torch(7, torch.device(name)):
            assert seeds == inside, name
        assert seeds == {0: 11, 1: 22}, name
