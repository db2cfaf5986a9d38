"""DP-SGD of many parties at once against the trainer of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import nn

from securefl.base.arrays import F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError, UsageError
from securefl.scenario.privacy import ClipEach, DpSgd, Normalise
from securefl.scenario.scenario import Training
from securefl.training.batched import dp_fleet
from securefl.training.batched.dp_fleet import DpFleet, DpJob, fits_fleet
from securefl.training.data.pool import pool_samples
from securefl.training.data.shards import Shard
from securefl.training.dpsgd import step as dp_step
from securefl.training.dpsgd.layers import layers_of
from securefl.training.dpsgd.trainer import DpSgdTrainer
from securefl.training.models.flatten import to_vector
from tests.unit.training import dp_models
from tests.unit.training.dp_models import CLASSES, SHAPE, images, made, text_model

CPU = torch.device("cpu")


def shards_of(sizes: Sequence[int]) -> list[Shard]:
    return [Shard(*images(size, seed), CLASSES, SHAPE) for seed, size in enumerate(sizes)]


def carries_of(parties: int, length: int) -> list[F64 | None]:
    """None for every third."""
    rng = np.random.default_rng(4)
    return [rng.standard_normal(length) / 8 if party % 3 else None for party in range(parties)]


def by_fleet(
    module: nn.Module,
    shards: Sequence[Shard],
    dp: DpSgd,
    carries: Sequence[F64 | None],
    *,
    batch: int = 5,
    threads: int = 1,
) -> list[F64 | None]:
    pool, portions = pool_samples([(shard.x, shard.y) for shard in shards], CPU)
    fleet = DpFleet(module, pool, SHAPE, Training(batch_size=batch), dp, threads=threads)
    jobs = [
        DpJob(portion, InsecureSeededEntropy(party), carry)
        for party, (portion, carry) in enumerate(zip(portions, carries, strict=True))
    ]
    found = list(fleet.updates(to_vector(module), jobs))
    assert [index for index, _ in found] == list(range(len(shards)))
    return [update for _, update in found]


def one_by_one(
    module: nn.Module, shards: Sequence[Shard], dp: DpSgd, carries: Sequence[F64 | None], batch: int = 5
) -> list[F64]:
    params = to_vector(module)
    config = Training(batch_size=batch)
    return [
        DpSgdTrainer(module, shard, config, dp, CPU).update(params, carry, InsecureSeededEntropy(party))
        for party, (shard, carry) in enumerate(zip(shards, carries, strict=True))
    ]


def assert_close(fast: Sequence[F64 | None], slow: Sequence[F64]) -> None:
    for update, expected in zip(fast, slow, strict=True):
        assert update is not None
        np.testing.assert_allclose(update, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [dp_models.dense, lambda: dp_models.dense(6), dp_models.grouped])
@pytest.mark.parametrize("sampler", ["poisson", "fixed-size"])
@pytest.mark.parametrize("bound", [Normalise(), ClipEach(norm=0.3)])
def test_updates_are_those_of_the_trainer(
    make: Callable[[], nn.Module], sampler: str, bound: Normalise | ClipEach
) -> None:
    module, shards = made(make), shards_of([9, 5, 14, 30, 7, 40])
    dp = DpSgd(sampler=sampler, bound=bound, momentum=0.2, carry="own")  # type: ignore[arg-type]
    carries = carries_of(6, len(to_vector(module)))
    slow = one_by_one(module, shards, dp, carries)
    assert_close(by_fleet(module, shards, dp, carries), slow)


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_groups_and_chunks_change_nothing_but_rounding_and_threads_nothing(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a chunk ends within a party's batch."""
    module, shards = made(lambda: dp_models.dense(6)), shards_of([9, 5, 14, 30, 7, 40])
    dp, carries = DpSgd(momentum=0.2, carry="own"), carries_of(6, len(to_vector(module)))
    slow = one_by_one(module, shards, dp, carries)
    monkeypatch.setattr(dp_fleet, "_CPU_EXAMPLES", 10)
    monkeypatch.setattr(dp_step, "_CPU_PASS_BYTES", rows * 4 * each(module))
    fast = by_fleet(module, shards, dp, carries)
    assert_close(fast, slow)
    for one, two in zip(fast, by_fleet(module, shards, dp, carries, threads=2), strict=True):
        assert one is not None
        assert two is not None
        assert one.tobytes() == two.tobytes()


def each(module: nn.Module) -> int:
    layers = layers_of(module)
    assert layers is not None
    return layers.floats_each(torch.ones(1, *SHAPE))


def test_empty_batches_among_others() -> None:
    module, shards = made(dp_models.dense), shards_of([90] * 12)
    dp, carries = DpSgd(), [None] * 12
    updates = by_fleet(module, shards, dp, carries, batch=1)
    slow = one_by_one(module, shards, dp, carries, batch=1)
    assert_close(updates, slow)
    empty = sum(not update.any() for update in slow)
    assert 0 < empty < 12


def test_nobody_drawn_and_nobody_asked() -> None:
    module = made(dp_models.dense)
    shard = shards_of([90])[0]
    pool, (portion,) = pool_samples([(shard.x, shard.y)], CPU)
    fleet = DpFleet(module, pool, SHAPE, Training(batch_size=1), DpSgd())
    assert list(fleet.updates(to_vector(module), [])) == []
    empty = [
        update
        for seed in range(20)
        for _, update in fleet.updates(to_vector(module), [DpJob(portion, InsecureSeededEntropy(seed), None)])
        if update is not None and not update.any()
    ]
    assert empty


def test_a_model_beyond_repair_gives_nobody_an_update() -> None:
    module, shards = made(dp_models.dense), shards_of([9, 9])
    with torch.no_grad():
        next(module.parameters()).fill_(float("nan"))
    assert by_fleet(module, shards, DpSgd(), [None, None]) == [None, None]


def test_shared_samples_and_labels_of_ones_own() -> None:
    module, shard = made(dp_models.dense), shards_of([12])[0]
    flipped = (CLASSES - 1) - shard.y
    twins = [shard, Shard(shard.x, flipped, CLASSES, SHAPE)]
    pool, _ = pool_samples([(twin.x, twin.y) for twin in twins], CPU)
    assert len(pool.x) == 12
    assert_close(
        by_fleet(module, twins, DpSgd(), [None, None]), one_by_one(module, twins, DpSgd(), [None, None])
    )


def test_who_fits() -> None:
    assert fits_fleet(made(dp_models.dense))
    assert fits_fleet(made(dp_models.grouped))
    assert not fits_fleet(made(dp_models.skipping))
    assert not fits_fleet(text_model())
    assert not fits_fleet(made(dp_models.dropout))


def test_what_is_refused() -> None:
    module, shards = made(dp_models.dense), shards_of([9, 4])
    with pytest.raises(ConfigError, match=r"training\.batch_size"):
        by_fleet(module, shards, DpSgd(), [None, None])
    with pytest.raises(UsageError, match="carry"):
        by_fleet(module, shards[:1], DpSgd(carry="own"), [np.zeros(3)])
