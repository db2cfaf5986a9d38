"""Many parties at once against the exact trainer, party by party."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F32
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.scenario.model import Model
from securefl.scenario.scenario import Training
from securefl.training.batched import fleet
from securefl.training.batched.fleet import DenseFleet, Job
from securefl.training.data.pool import pool_samples
from securefl.training.data.shards import Shard
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import to_vector
from securefl.training.models.parts.cnn import Cnn
from securefl.training.models.parts.lstm import Lstm
from securefl.training.models.parts.mlp import Mlp
from securefl.training.models.parts.softmax import Softmax
from securefl.training.sgd.outcomes import TrainingDivergedError
from securefl.training.sgd.trainer import LocalTrainer
from tests.tiers import examples
from tests.unit.training.builders import blobs

CPU = torch.device("cpu")
SHAPE, CLASSES = (2, 3), 4


def shards_of_sizes(sizes: Sequence[int]) -> list[Shard]:
    return [blobs(size, CLASSES, SHAPE, seed=i) for i, size in enumerate(sizes)]


def widths_of(model: Model) -> tuple[int, ...]:
    widths = model.vectorised_widths(SHAPE, CLASSES)
    assert widths is not None
    return widths


def start_of(model: Model) -> F32:
    return to_vector(build_model(model, SHAPE, CLASSES, seed=3))


def seed_of(party: int) -> int:
    return int.from_bytes(InsecureSeededEntropy(party).draw(8), "big")


def by_fleet(
    model: Model, shards: Sequence[Shard], config: Training, threads: int = 1
) -> dict[int, F32 | None]:
    pool, portions = pool_samples([(shard.x, shard.y) for shard in shards], CPU)
    jobs = [Job(portion, seed_of(party)) for party, portion in enumerate(portions)]
    trainer = DenseFleet(widths_of(model), pool, config, threads=threads)
    results = dict(trainer.train(start_of(model), jobs))
    assert sorted(results) == list(range(len(shards)))
    return results


def one_by_one(model: Model, shards: Sequence[Shard], config: Training) -> dict[int, F32 | None]:
    module = build_model(model, SHAPE, CLASSES, seed=3)
    start = to_vector(module)
    results: dict[int, F32 | None] = {}
    for party, shard in enumerate(shards):
        try:
            results[party] = LocalTrainer(module, shard, config, CPU).train(
                start, InsecureSeededEntropy(party)
            )
        except TrainingDivergedError:
            results[party] = None
    return results


def assert_close(fast: dict[int, F32 | None], exact: dict[int, F32 | None]) -> None:
    for party, expected in exact.items():
        got = fast[party]
        assert expected is not None
        assert got is not None
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=examples(25), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 23), min_size=1, max_size=7),
    hidden=st.sampled_from([None, (5,), (5, 3)]),
    batch_size=st.integers(1, 9),
    epochs=st.integers(1, 2),
    momentum=st.sampled_from([0.0, 0.6]),
    weight_decay=st.sampled_from([0.0, 0.1]),
)
@example([1, 23, 2, 9, 8], (5,), 4, 2, 0.6, 0.1)
def test_the_results_are_those_of_the_exact_trainer(
    sizes: list[int],
    hidden: tuple[int, ...] | None,
    batch_size: int,
    epochs: int,
    momentum: float,
    weight_decay: float,
) -> None:
    model: Model = Softmax() if hidden is None else Mlp(hidden=hidden)
    config = Training(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=0.03,
        momentum=momentum,
        weight_decay=weight_decay,
    )
    shards = shards_of_sizes(sizes)
    assert_close(by_fleet(model, shards, config), one_by_one(model, shards, config))


def test_whoever_diverges_is_alone_in_it() -> None:
    shards = shards_of_sizes([8, 9, 12, 12])
    shards[1] = Shard(shards[1].x * np.float32(1e37), shards[1].y, CLASSES, SHAPE)
    config = Training(learning_rate=0.1, batch_size=4, epochs=2)
    results = by_fleet(Mlp(hidden=(5,)), shards, config)
    assert results.pop(1) is None
    expected = one_by_one(Mlp(hidden=(5,)), shards, config)
    assert expected.pop(1) is None
    assert_close(results, expected)


@pytest.mark.parametrize("threads", [2, 3])
def test_chunks_change_nothing_but_rounding_and_threads_nothing(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, config = Mlp(hidden=(5,)), Training(batch_size=4, learning_rate=0.05, epochs=2)
    shards = shards_of_sizes([9, 5, 14, 14, 3, 7, 7, 1])
    three = 3 * 4 * (59 + 3 * 4 * 15)
    monkeypatch.setattr(fleet, "_CPU_CHUNK_BYTES", (three, three))
    chunked = by_fleet(model, shards, config, threads)
    one_thread = by_fleet(model, shards, config)
    for party, result in one_thread.items():
        assert result is not None
        assert np.array_equal(result, chunked[party])  # type: ignore[arg-type]
    assert_close(chunked, one_by_one(model, shards, config))


def test_shared_samples_are_stored_once_and_labels_are_each_ones_own() -> None:
    shard = blobs(12, CLASSES, SHAPE)
    flipped = (CLASSES - 1) - shard.y
    pool, (honest, poisoned) = pool_samples([(shard.x, shard.y), (shard.x, flipped)], CPU)
    assert len(pool.x) == 12
    assert (honest.x, poisoned.x, honest.y, poisoned.y) == (0, 0, 0, 12)
    model, config = Softmax(), Training(batch_size=4)
    jobs = [Job(honest, seed_of(0)), Job(poisoned, seed_of(1))]
    results = dict(DenseFleet(widths_of(model), pool, config).train(start_of(model), jobs))
    twins = [shard, Shard(shard.x, flipped, CLASSES, SHAPE)]
    assert_close(results, one_by_one(model, twins, config))


def test_an_abandoned_training_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_CPU_CHUNK_BYTES", (1, 1))
    shards = shards_of_sizes([6] * 9)
    pool, portions = pool_samples([(shard.x, shard.y) for shard in shards], CPU)
    trainer = DenseFleet(widths_of(Softmax()), pool, Training(), threads=2)
    jobs = [Job(portion, 1) for portion in portions]
    results = trainer.train(start_of(Softmax()), jobs)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert len(list(trainer.train(start_of(Softmax()), jobs))) == 9


def test_models_without_a_form_for_fleets() -> None:
    assert Cnn().vectorised_widths((28, 28), 10) is None
    assert Lstm().vectorised_widths((40,), 86) is None
    assert Softmax().vectorised_widths((28, 28), 10) == (784, 10)
    assert Mlp(hidden=(64, 32)).vectorised_widths((3, 4), 5) == (12, 64, 32, 5)


def test_parameters_of_another_length_are_refused() -> None:
    shard = blobs(6, CLASSES, SHAPE)
    pool, (portion,) = pool_samples([(shard.x, shard.y)], CPU)
    with pytest.raises(UsageError, match="params"):
        list(
            DenseFleet(widths_of(Softmax()), pool, Training()).train(
                np.zeros(3, np.float32), [Job(portion, 1)]
            )
        )
