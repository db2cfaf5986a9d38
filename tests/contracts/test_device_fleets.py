"""Contract of fleets on any device: each party gets what it would train alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import nn

from securefl.base.arrays import F32
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.scenario import Training
from securefl.training.batched import DenseFleet, Job, LayerFleet, fleet, layer_fleet
from securefl.training.data.pool import pool_samples
from securefl.training.data.shards import Shard
from securefl.training.models import device as devices_of_models
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import to_vector
from securefl.training.models.parts.cnn import Cnn
from securefl.training.models.parts.mlp import Mlp
from securefl.training.sgd.outcomes import TrainingDivergedError
from securefl.training.sgd.trainer import LocalTrainer
from tests.contracts.devices import (
    CLASSES,
    KINKED,
    MAPPED_NORM,
    SHAPE,
    SMOOTH,
    device,
    distance,
    seed_of,
    shard_of,
    smooth_model,
)

__all__ = ["device"]

CPU = torch.device("cpu")
SIZES = (9, 30, 17, 12, 25, 8, 1)
CONFIG = Training(batch_size=8, epochs=2, learning_rate=0.05, momentum=0.5, weight_decay=0.01)
DENSE = Mlp(hidden=(9, 5))


def dense(pool: object, config: Training, _module: nn.Module) -> DenseFleet:
    widths = DENSE.vectorised_widths(SHAPE, CLASSES)
    assert widths is not None
    return DenseFleet(widths, pool, config)  # type: ignore[arg-type]


def layered(pool: object, config: Training, module: nn.Module) -> LayerFleet:
    return LayerFleet(module, pool, SHAPE, config)  # type: ignore[arg-type]


FLEETS: dict[str, tuple[Callable[..., DenseFleet | LayerFleet], Callable[[], nn.Module], float]] = {
    "dense": (dense, lambda: build_model(DENSE, SHAPE, CLASSES, 3), KINKED),
    "smooth": (layered, lambda: smooth_model(normed=MAPPED_NORM), SMOOTH),
    "cnn": (layered, lambda: build_model(Cnn(channels=(3, 4), dense=8), SHAPE, CLASSES, 3), KINKED),
}


def by_fleet(kind: str, shards: Sequence[Shard], config: Training, device: torch.device) -> list[F32 | None]:
    make_fleet, make_module, _ = FLEETS[kind]
    module = make_module()
    start = to_vector(module)
    pool, portions = pool_samples([(shard.x, shard.y) for shard in shards], device)
    jobs = [Job(portion, seed_of(party)) for party, portion in enumerate(portions)]
    found = dict(make_fleet(pool, config, module).train(start, jobs))
    assert sorted(found) == list(range(len(shards)))
    return [found[party] for party in range(len(shards))]


def alone(kind: str, shards: Sequence[Shard], config: Training) -> list[F32 | None]:
    module = FLEETS[kind][1]()
    start, results = to_vector(module), list[F32 | None]()
    for party, shard in enumerate(shards):
        try:
            results.append(
                LocalTrainer(module, shard, config, CPU).train(start, InsecureSeededEntropy(party))
            )
        except TrainingDivergedError:
            results.append(None)
    return results


def assert_alike(kind: str, found: Sequence[F32 | None], expected: Sequence[F32 | None]) -> None:
    start = to_vector(FLEETS[kind][1]())
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert distance(one, other.astype(np.float64), start) < FLEETS[kind][2]


@pytest.mark.parametrize("kind", FLEETS)
@pytest.mark.parametrize("config", [CONFIG, Training(batch_size=5, learning_rate=0.1)])
def test_each_party_gets_what_it_would_train_alone(kind: str, config: Training, device: torch.device) -> None:
    shards = [shard_of(size, seed) for seed, size in enumerate(SIZES)]
    assert_alike(kind, by_fleet(kind, shards, config, device), alone(kind, shards, config))


@pytest.mark.parametrize("kind", FLEETS)
def test_parties_split_into_chunks(kind: str, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """One party a chunk, as where memory is short."""
    monkeypatch.setattr(layer_fleet, "_CPU_CHUNK_BYTES", 1)
    monkeypatch.setattr(fleet, "_CPU_CHUNK_BYTES", (1, 1))
    monkeypatch.setattr(devices_of_models, "_UNKNOWN", 1)
    monkeypatch.setattr(devices_of_models, "_MOST_AT_ONCE", 1)
    shards = [shard_of(size, seed) for seed, size in enumerate(SIZES)]
    assert_alike(kind, by_fleet(kind, shards, CONFIG, device), alone(kind, shards, CONFIG))


@pytest.mark.parametrize("kind", FLEETS)
def test_a_party_that_diverges_changes_no_other(kind: str, device: torch.device) -> None:
    shards = [shard_of(size, seed) for seed, size in enumerate(SIZES)]
    shards[1] = Shard(shards[1].x * np.float32(1e37), shards[1].y, CLASSES, SHAPE)
    found, expected = by_fleet(kind, shards, CONFIG, device), alone(kind, shards, CONFIG)
    if kind == "smooth":
        # Saturated, such samples need not end in numbers that are not finite.
        found[1] = expected[1] = None
    assert found[1] is None
    assert_alike(kind, found, expected)


def test_other_layers_are_refused(device: torch.device) -> None:
    pool, _ = pool_samples([(shard_of(8).x, shard_of(8).y)], device)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES), nn.Dropout(0.5))
    with pytest.raises(UsageError, match="no batched form"):
        LayerFleet(module, pool, SHAPE, CONFIG)


def test_parameters_of_another_length_are_refused(device: torch.device) -> None:
    pool, (portion,) = pool_samples([(shard_of(8).x, shard_of(8).y)], device)
    with pytest.raises(UsageError, match="params"):
        list(
            LayerFleet(smooth_model(), pool, SHAPE, CONFIG).train(np.zeros(3, np.float32), [Job(portion, 1)])
        )
