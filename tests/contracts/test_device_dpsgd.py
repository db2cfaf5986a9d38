"""Contract of DP-SGD on any device, against one gradient after the other in double precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from securefl.base.arrays import F32, F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.methods.privacy.sensitivity import sum_error
from securefl.scenario import ClipEach, DpSgd, Normalise, Training
from securefl.training.batched import DpFleet, DpJob
from securefl.training.data.pool import pool_samples
from securefl.training.data.shards import Shard
from securefl.training.dpsgd import DpStep, DrawnBatch, PoolSource, batch_entropy, draw_batch, draw_slots
from securefl.training.dpsgd.trainer import DpSgdTrainer
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import to_vector
from securefl.training.models.parts.mlp import Mlp
from tests.contracts.devices import (
    BOUND,
    CLASSES,
    SHAPE,
    SMOOTH,
    device,
    distance,
    in_double,
    shard_of,
    smooth_model,
)

__all__ = ["device"]

BATCH = 6
SIZES = (9, 30, 17, 12)


class Mixed(nn.Module):
    """A model of no known layers: its gradients come from ``vmap``."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second = nn.Linear(64, 7), nn.Linear(7, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.second(torch.tanh(self.first(x.flatten(1))))
        return scores


MODELS = {
    "layers": smooth_model,
    "dense": lambda: build_model(Mlp(hidden=(9,), activation="tanh"), SHAPE, CLASSES, 3),
    "mapped": Mixed,
}
STEPS = [
    DpSgd(bound=Normalise()),
    DpSgd(bound=ClipEach(norm=0.3)),
    DpSgd(bound=Normalise(), momentum=0.3, carry="own"),
    DpSgd(bound=ClipEach(norm=0.3), momentum=0.3, carry="own", sampler="fixed-size"),
]


def by_definition(
    module: nn.Module, start: F32, shard: Shard, dp: DpSgd, carry: F64 | None, party: int
) -> F64:
    """Algorithm 1 of Xiang et al. (2023), lines 9 and 11, with the sign of an update and without noise."""
    twin = in_double(module, start)
    rows = draw_batch(dp.sampler, len(shard.y), BATCH, batch_entropy(InsecureSeededEntropy(party)))
    total = np.zeros(len(start))
    for row in rows:
        loss = cross_entropy(
            twin(torch.from_numpy(shard.x[row : row + 1]).double()), torch.from_numpy(shard.y[row : row + 1])
        )
        slopes = torch.autograd.grad(loss, list(twin.parameters()))
        gradient = torch.cat([slope.reshape(-1) for slope in slopes]).numpy()
        mixed = gradient
        if carry is not None:
            mixed = (1 - dp.momentum) * gradient + dp.momentum * carry
        length = np.linalg.norm(mixed)
        factor = 1 / length if isinstance(dp.bound, Normalise) else min(1.0, dp.bound.norm / length)
        total -= mixed * factor / BATCH
    return total


def carries_of(dp: DpSgd, length: int, parties: int) -> list[F64 | None]:
    """None for every third, and without momentum for all."""
    rng = np.random.default_rng(4)
    return [
        rng.standard_normal(length) / 8 if dp.momentum and party % 3 else None for party in range(parties)
    ]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dp", STEPS, ids=["normalise", "clip", "normalise-carry", "clip-carry"])
def test_a_step_is_that_of_the_definition(model: str, dp: DpSgd, device: torch.device) -> None:
    for party, carry in enumerate(carries_of(dp, len(to_vector(MODELS[model]())), 2)):
        module, shard = MODELS[model](), shard_of(30)
        start = to_vector(module)
        trainer = DpSgdTrainer(module, shard, Training(batch_size=BATCH), dp, device)
        found = trainer.update(start, carry, InsecureSeededEntropy(party))
        assert distance(found, by_definition(module, start, shard, dp, carry, party)) < SMOOTH


@pytest.mark.parametrize("dp", STEPS, ids=["normalise", "clip", "normalise-carry", "clip-carry"])
def test_a_fleet_steps_as_each_party_would(dp: DpSgd, device: torch.device) -> None:
    module = smooth_model()
    start = to_vector(module)
    shards = [shard_of(size, seed) for seed, size in enumerate(SIZES)]
    carries = carries_of(dp, len(start), len(SIZES))
    pool, portions = pool_samples([(shard.x, shard.y) for shard in shards], device)
    jobs = [
        DpJob(portion, InsecureSeededEntropy(party), carry)
        for party, (portion, carry) in enumerate(zip(portions, carries, strict=True))
    ]
    found = dict(DpFleet(module, pool, SHAPE, Training(batch_size=BATCH), dp).updates(start, jobs))
    for party, (shard, carry) in enumerate(zip(shards, carries, strict=True)):
        update = found[party]
        assert update is not None
        assert distance(update, by_definition(module, start, shard, dp, carry, party)) < SMOOTH


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("bound", [Normalise(), ClipEach(norm=0.3)])
@pytest.mark.parametrize("drawn", [3, 17, 33])
def test_without_any_one_record_the_sum_moves_by_its_bound_at_most(
    model: str, bound: Normalise | ClipEach, drawn: int, device: torch.device
) -> None:
    """Weights of 1e3 flip gradients where anything of them follows from the other records."""
    module, shard, dp = MODELS[model](), shard_of(60), DpSgd(bound=bound)
    pool, _ = pool_samples([(shard.x, shard.y)], device)
    step = DpStep(module, PoolSource(pool, SHAPE), BATCH, dp)
    step.load(to_vector(module) * np.float32(1e3))
    records = np.arange(drawn)
    slots = draw_slots(step.slots, drawn, InsecureSeededEntropy(drawn))
    whole = step.update(DrawnBatch(records, records, None), slots) * BATCH
    error = sum_error(drawn, whole.size, carried=False)
    moves = []
    for gone in range(0, drawn, max(1, drawn // 5)):
        kept = np.arange(drawn) != gone
        rest = step.update(DrawnBatch(records[kept], records[kept], None), slots[kept]) * BATCH
        moves.append(float(np.linalg.norm(whole - rest)))
    # The products with b_c round, too.
    assert max(moves) <= dp.norm * (1 + error + 2.0**-50 * drawn)
    assert max(moves) > 0.99 * dp.norm


@pytest.mark.parametrize("bound", [Normalise(), ClipEach(norm=0.3)])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e-3])
def test_one_record_moves_a_sum_by_its_bound_at_most(
    bound: Normalise | ClipEach, scale: float, device: torch.device
) -> None:
    """All drawn (a batch of all records), so that the batch without one is the sum without one."""
    module = smooth_model()
    start = (to_vector(module) * np.float32(scale)).astype(np.float32)
    shard, dp = shard_of(4), DpSgd(bound=bound, sampler="fixed-size")

    def update(rows: Sequence[int]) -> F64:
        kept = Shard(shard.x[list(rows)], shard.y[list(rows)], CLASSES, SHAPE)
        trainer = DpSgdTrainer(module, kept, Training(batch_size=len(rows)), dp, device)
        return trainer.update(start, None, InsecureSeededEntropy(1)) * len(rows)

    alone = [np.linalg.norm(update([row])) for row in range(4)]
    assert max(alone) <= dp.norm * (1 + BOUND)
    assert np.linalg.norm(update(range(4))) <= 4 * dp.norm * (1 + BOUND)
