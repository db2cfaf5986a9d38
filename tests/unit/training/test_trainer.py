from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from securefl.base.arrays import F32
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.scenario.data import Data
from securefl.scenario.model import Model
from securefl.scenario.scenario import Training
from securefl.training.data.datasets import load_dataset
from securefl.training.data.shards import Shard, load_shard, write_shards
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import load_vector, to_vector
from securefl.training.models.parts.cnn import Cnn
from securefl.training.models.parts.custom import CustomModel
from securefl.training.models.parts.lstm import Lstm
from securefl.training.models.parts.mlp import Mlp
from securefl.training.models.parts.softmax import Softmax
from securefl.training.sgd.evaluation import Evaluator
from securefl.training.sgd.outcomes import TrainingDivergedError
from securefl.training.sgd.trainer import LocalTrainer
from tests.unit.training.builders import blobs, real_data_dir

CPU = torch.device("cpu")


def trained(
    model: Model, shard: Shard, config: Training, seed: int = 1, params: F32 | None = None
) -> tuple[F32, F32]:
    """Parameters before and after."""
    module = build_model(model, shard.input_shape, shard.classes, seed=3, tokens=shard.tokens)
    before = to_vector(module) if params is None else params
    return before, LocalTrainer(module, shard, config, CPU).train(before, InsecureSeededEntropy(seed))


def custom(name: str) -> CustomModel:
    return CustomModel(factory=f"tests.unit.training.factories:{name}")


@pytest.mark.parametrize(
    "config",
    [
        Training(learning_rate=0.1, batch_size=6),
        Training(learning_rate=0.05, momentum=0.9, batch_size=6),
        Training(learning_rate=0.05, weight_decay=0.01, batch_size=6),
        Training(learning_rate=0.05, momentum=0.5, weight_decay=0.1, epochs=3, batch_size=6),
    ],
)
def test_steps_are_those_of_torch_sgd_bit_for_bit(config: Training) -> None:
    shard = blobs(24)
    before, after = trained(Mlp(hidden=(5,)), shard, config)
    reference = build_model(Mlp(hidden=(5,)), shard.input_shape, shard.classes, seed=0)
    load_vector(reference, before)
    sgd = torch.optim.SGD(
        reference.parameters(),
        lr=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
    )
    order = torch.Generator().manual_seed(int.from_bytes(InsecureSeededEntropy(1).draw(8), "big"))
    x, y = torch.from_numpy(shard.x), torch.from_numpy(shard.y)
    for _ in range(config.epochs):
        for batch in torch.randperm(24, generator=order).reshape(4, 6):
            sgd.zero_grad()
            torch.autograd.backward(torch.nn.functional.cross_entropy(reference(x[batch]), y[batch]))
            sgd.step()
    assert np.abs(after - before).max() > 1e-3
    assert after.tobytes() == to_vector(reference).tobytes()


def test_one_step_of_softmax_regression_by_hand() -> None:
    shard = Shard(np.array([[1.0, 2.0]], dtype=np.float32), np.array([1], dtype=np.int64), 2, (2,))
    _, after = trained(Softmax(), shard, Training(learning_rate=1.0), params=np.zeros(6, dtype=np.float32))
    # Scores are 0, so the gradient of the scores is (1/2, -1/2).
    assert after.tolist() == [-0.5, -1.0, 0.5, 1.0, -0.5, 0.5]


def test_same_input_same_bits_and_the_entropy_orders_the_samples() -> None:
    shard, config = blobs(100), Training(batch_size=8, epochs=2, momentum=0.9)
    _, one = trained(Mlp(), shard, config, seed=1)
    torch.manual_seed(99)
    _, again = trained(Mlp(), shard, config, seed=1)
    _, other = trained(Mlp(), shard, config, seed=2)
    assert one.tobytes() == again.tobytes()
    assert one.tobytes() != other.tobytes()


def test_a_trainer_keeps_nothing_between_calls() -> None:
    shard = blobs(50)
    module = build_model(Mlp(), shard.input_shape, shard.classes, seed=3)
    params = to_vector(module)
    trainer = LocalTrainer(module, shard, Training(momentum=0.9, batch_size=7), CPU)
    first = trainer.train(params, InsecureSeededEntropy(1))
    trainer.train(first, InsecureSeededEntropy(2))
    assert trainer.train(params, InsecureSeededEntropy(1)).tobytes() == first.tobytes()


def test_dropout_is_repeatable_and_leaves_the_global_generator_alone() -> None:
    shard = blobs(50)
    before = torch.get_rng_state()
    _, one = trained(custom("with_dropout"), shard, Training())
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    _, again = trained(custom("with_dropout"), shard, Training())
    assert one.tobytes() == again.tobytes()


class _Recorder(torch.nn.Module):
    """A linear model that remembers the first value of each sample that it saw, batch by batch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(1, 2)
        self.batches: list[list[float]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.batches.append(x[:, 0].tolist())
        scores: torch.Tensor = self.linear(x)
        return scores


@pytest.mark.parametrize(("samples", "batch_size"), [(33, 32), (1, 32), (10, 10), (10, 3), (7, 1), (65, 32)])
def test_epochs_visit_every_sample_once_in_even_batches(samples: int, batch_size: int) -> None:
    x: F32 = np.arange(samples, dtype=np.float32)[:, None]
    shard = Shard(x, np.arange(samples, dtype=np.int64) % 2, 2, (1,))
    module = _Recorder()
    LocalTrainer(module, shard, Training(epochs=2, batch_size=batch_size), CPU).train(
        to_vector(module), InsecureSeededEntropy(5)
    )
    per_epoch = math.ceil(samples / batch_size)
    assert len(module.batches) == 2 * per_epoch
    sizes = [len(batch) for batch in module.batches]
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1
    halves = (module.batches[:per_epoch], module.batches[per_epoch:])
    epochs = [[value for batch in half for value in batch] for half in halves]
    assert all(sorted(epoch) == x[:, 0].tolist() for epoch in epochs)
    if samples > 5:
        assert epochs[0] != epochs[1] != sorted(epochs[1])


@pytest.mark.parametrize(("samples", "used"), [(100, None), (100, 30), (100, 3), (4, 9)])
def test_a_share_of_the_samples_in_each_of_so_many_batches(samples: int, used: int | None) -> None:
    x: F32 = np.arange(samples, dtype=np.float32)[:, None]
    module = _Recorder()
    config = Training(epochs=9, batch_fraction=0.1, steps=12)
    shard = Shard(x, np.arange(samples, dtype=np.int64) % 2, 2, (1,))
    LocalTrainer(module, shard, config, CPU).train(to_vector(module), InsecureSeededEntropy(5), used)
    held = min(samples, used or samples)
    assert [len(batch) for batch in module.batches] == [max(1, held // 10)] * 12
    first = [value for batch in module.batches for value in batch][:held]
    assert sorted(first) == x[:held, 0].tolist(), "the first samples, and each of them once an epoch"


def test_dropout_is_drawn_from_the_partys_entropy() -> None:
    shard, plain, dropping = blobs(24), Mlp(hidden=(16,)), Mlp(hidden=(16,), dropout=0.5)
    before, after = trained(dropping, shard, Training())
    assert after.tobytes() == trained(dropping, shard, Training())[1].tobytes()
    assert after.tobytes() != trained(dropping, shard, Training(), seed=2)[1].tobytes()
    same_start, without = trained(plain, shard, Training())
    assert before.tobytes() == same_start.tobytes()
    assert after.tobytes() != without.tobytes()


def test_frozen_and_unused_parameters_stay() -> None:
    shard = blobs(30)
    before, after = trained(custom("with_frozen_bias"), shard, Training(weight_decay=0.1))
    assert len(before) == len(after) == 3 * 4, "a bias for each class is no part of it"
    assert not np.array_equal(after, before)
    before, after = trained(custom("with_unused_layer"), shard, Training())
    np.testing.assert_array_equal(after[-6:], before[-6:])
    assert not np.array_equal(after[:-6], before[:-6])


def test_divergence_is_named() -> None:
    with pytest.raises(TrainingDivergedError, match=r"learning_rate \(1e\+30\)"):
        trained(Mlp(), blobs(50), Training(learning_rate=1e30, epochs=5))
    nan = np.full(4 * 3 + 3, np.nan, dtype=np.float32)
    with pytest.raises(TrainingDivergedError):
        trained(Softmax(), blobs(50), Training(), params=nan)


def test_params_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="expected \\(15,\\)"):
        trained(Softmax(), blobs(50), Training(), params=np.zeros(14, dtype=np.float32))


def test_inputs_are_left_untouched() -> None:
    shard = blobs(50)
    x, y = shard.x.copy(), shard.y.copy()
    module = build_model(Softmax(), shard.input_shape, shard.classes, seed=3)
    trainer = LocalTrainer(module, shard, Training(), CPU)
    params = to_vector(module)
    kept = params.copy()
    trainer.train(params, InsecureSeededEntropy(1))
    np.testing.assert_array_equal(params, kept)
    np.testing.assert_array_equal(shard.x, x)
    np.testing.assert_array_equal(shard.y, y)


def test_flipped_labels_teach_the_wrong_thing() -> None:
    shard = blobs(300)
    flipped = dataclasses.replace(shard, y=(shard.y + 1) % 3)
    module = build_model(Softmax(), (4,), 3, seed=3)
    _, after = trained(Softmax(), flipped, Training(epochs=3))
    assert Evaluator(module, shard, CPU).evaluate(after).accuracy < 0.1


@pytest.mark.parametrize(("model", "accuracy"), [(Softmax(), 0.9), (Mlp(), 0.93), (Cnn(), 0.93)])
def test_digits_are_learnt(tmp_path: Path, model: Model, accuracy: float) -> None:
    files = write_shards(load_dataset("digits", None), Data(), (PartyId("all"),), 1, tmp_path)
    shard, test = load_shard(files.parties[PartyId("all")]), load_shard(files.test)
    before, after = trained(model, shard, Training(epochs=5))
    evaluator = Evaluator(build_model(model, test.input_shape, test.classes, seed=0), test, CPU)
    assert evaluator.evaluate(before).accuracy < 0.3
    assert evaluator.evaluate(after).accuracy > accuracy


def test_a_text_is_learnt() -> None:
    # The next token of a cycle of 5, but the first one of a sequence says nothing of its own.
    tokens = (np.arange(9)[None, :] + np.arange(40)[:, None]) % 5
    shard = Shard(tokens[:, :-1].copy(), tokens[:, 1:].copy(), 5, (8,))
    model = Lstm(embedding=4, hidden=8, layers=2)
    before, after = trained(model, shard, Training(epochs=30, batch_size=4, learning_rate=1.0))
    evaluator = Evaluator(build_model(model, (8,), 5, seed=0, tokens=True), shard, CPU)
    assert evaluator.evaluate(before).accuracy < 0.5
    assert evaluator.evaluate(after).accuracy > 0.95
    _, again = trained(model, shard, Training(epochs=30, batch_size=4, learning_rate=1.0))
    assert after.tobytes() == again.tobytes()


def test_fashion_mnist_is_learnt(tmp_path: Path) -> None:
    dataset = load_dataset("fashion-mnist", real_data_dir("fashion-mnist"))
    files = write_shards(dataset, Data(train_limit=2000, test_limit=1000), (PartyId("all"),), 1, tmp_path)
    shard, test = load_shard(files.parties[PartyId("all")]), load_shard(files.test)
    _, after = trained(Mlp(hidden=(32,)), shard, Training(epochs=5))
    module = build_model(Mlp(hidden=(32,)), test.input_shape, test.classes, seed=0)
    assert Evaluator(module, test, CPU).evaluate(after).accuracy > 0.75
