from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.base.errors import ConfigError, UsageError
from securefl.scenario.privacy import ClipEach, DpSgd, Normalise
from securefl.scenario.scenario import Training
from securefl.training.data.shards import Shard
from securefl.training.dpsgd import step as dp_step
from securefl.training.dpsgd.sampling import draw_batch
from securefl.training.dpsgd.trainer import DpSgdTrainer, batch_entropy
from securefl.training.models.flatten import load_vector, to_vector
from securefl.training.sgd.outcomes import TrainingDivergedError
from tests.tiers import examples
from tests.unit.training import dp_models
from tests.unit.training.dp_models import CLASSES, SHAPE, images, made, slow_gradients, text, text_model

CPU = torch.device("cpu")


class Fixed:
    """The same bytes always: which records are drawn does not matter where this is used."""

    insecure = True

    def child(self, *_labels: str | int) -> Fixed:
        return self

    def draw(self, size: int) -> bytes:
        return bytes(size)


def shard_of(samples: int) -> Shard:
    x, y = images(samples)
    return Shard(x, y, CLASSES, SHAPE)


def trainer_of(module: nn.Module, shard: Shard, dp: DpSgd, batch: int = 6) -> tuple[DpSgdTrainer, F32]:
    return DpSgdTrainer(module, shard, Training(batch_size=batch), dp, CPU), to_vector(module)


def by_definition(
    module: nn.Module, shard: Shard, dp: DpSgd, batch: int, carry: F64 | None, entropy: Entropy
) -> tuple[F64, int]:
    """The update and how many were drawn."""
    rows = draw_batch(dp.sampler, len(shard.y), batch, batch_entropy(entropy))
    total = np.zeros(len(to_vector(module)))
    for gradient in slow_gradients(module, shard.x[rows], shard.y[rows]) if len(rows) else ():
        mixed = (1 - dp.momentum) * gradient + dp.momentum * (0 if carry is None else carry)
        length = np.linalg.norm(mixed)
        most = dp.bound.norm if isinstance(dp.bound, ClipEach) else 1.0
        if isinstance(dp.bound, Normalise) or length > most:
            mixed *= most / length
        total -= mixed / batch
    return total, len(rows)


@pytest.mark.parametrize("make", [lambda: dp_models.dense(5), dp_models.grouped, dp_models.skipping])
@pytest.mark.parametrize("sampler", ["poisson", "fixed-size"])
@pytest.mark.parametrize("momentum", [0.0, 0.25])
@pytest.mark.parametrize("bound", [Normalise(), ClipEach(norm=0.4)])
def test_updates_are_those_of_the_definition(
    make: Callable[[], nn.Module], sampler: str, momentum: float, bound: Normalise | ClipEach
) -> None:
    module, shard = made(make), shard_of(30)
    dp = DpSgd(sampler=sampler, momentum=momentum, bound=bound, carry="own")  # type: ignore[arg-type]
    trainer, params = trainer_of(module, shard, dp)
    carry = np.random.default_rng(2).standard_normal(len(params)) / 8
    for seed, given_ in ((1, carry), (2, None)):
        update = trainer.update(params, given_, InsecureSeededEntropy(seed))
        expected, _ = by_definition(module, shard, dp, 6, given_, InsecureSeededEntropy(seed))
        assert update.dtype == np.float64
        np.testing.assert_allclose(update, expected, rtol=1e-4, atol=1e-6)


def test_text() -> None:
    x, y = text(12)
    module, shard = text_model(), Shard(x, y, 5, (7,))
    trainer, params = trainer_of(module, shard, DpSgd())
    update = trainer.update(params, None, InsecureSeededEntropy(1))
    expected, drawn = by_definition(module, shard, DpSgd(), 6, None, InsecureSeededEntropy(1))
    assert drawn
    np.testing.assert_allclose(update, expected, rtol=1e-4, atol=1e-6)


@settings(max_examples=examples(30), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    norm=st.sampled_from([None, 0.01, 1.0, 50.0]),
    momentum=st.sampled_from([0.0, 0.5]),
    batch=st.integers(1, 20),
    scale=st.sampled_from([1e-4, 1.0, 1e4]),
)
def test_an_update_is_no_longer_than_its_terms(
    seed: int, norm: float | None, momentum: float, batch: int, scale: float
) -> None:
    module, shard = made(lambda: dp_models.dense(5)), shard_of(20)
    dp = DpSgd(bound=Normalise() if norm is None else ClipEach(norm=norm), momentum=momentum, carry="own")
    trainer, params = trainer_of(module, dataclasses.replace(shard, x=shard.x * np.float32(scale)), dp, batch)
    carry = np.random.default_rng(seed).standard_normal(len(params))
    update = trainer.update(params, carry, InsecureSeededEntropy(seed))
    drawn = len(draw_batch("poisson", 20, batch, batch_entropy(InsecureSeededEntropy(seed))))
    assert np.linalg.norm(update) <= drawn * (norm or 1.0) / batch * (1 + 1e-9)


def test_steps_go_downhill() -> None:
    shard = shard_of(40)
    module = made(lambda: dp_models.dense(16))
    trainer, params = trainer_of(module, shard, DpSgd(), batch=40)
    before = loss_of(module, shard)
    for step in range(40):
        params = params + (0.2 * trainer.update(params, None, InsecureSeededEntropy(step))).astype(np.float32)
    load_vector(module, params)
    assert loss_of(module, shard) < 0.7 * before


def loss_of(module: nn.Module, shard: Shard) -> float:
    with torch.no_grad():
        return float(cross_entropy(module(torch.from_numpy(shard.x)), torch.from_numpy(shard.y)))


def test_an_empty_batch_gives_zero() -> None:
    module = made(lambda: dp_models.dense(5))
    trainer, params = trainer_of(module, shard_of(400), DpSgd(momentum=0.5, carry="own"), batch=1)
    seed = next(
        seed
        for seed in range(50)
        if not len(draw_batch("poisson", 400, 1, batch_entropy(InsecureSeededEntropy(seed))))
    )
    update = trainer.update(params, np.ones(len(params)), InsecureSeededEntropy(seed))
    assert update.shape == params.shape
    assert (update == 0).all()


@pytest.mark.parametrize("make", [lambda: dp_models.dense(5), dp_models.grouped, dp_models.dropout])
def test_same_input_same_bits(make: Callable[[], nn.Module]) -> None:
    module, shard = made(make), shard_of(60)
    trainer, params = trainer_of(module, shard, DpSgd())
    one = trainer.update(params, None, InsecureSeededEntropy(1))
    state = torch.get_rng_state()
    trainer.update(params + np.float32(1), None, InsecureSeededEntropy(2))
    assert torch.equal(state, torch.get_rng_state()), "torch's own generator is left alone"
    torch.rand(3)
    again, _ = trainer_of(made(make, seed=9), shard, DpSgd())
    assert again.update(params, None, InsecureSeededEntropy(1)).tobytes() == one.tobytes()
    twin = trainer.with_module(made(make, seed=8))
    assert twin.update(params, None, InsecureSeededEntropy(1)).tobytes() == one.tobytes()
    assert trainer.update(params, None, InsecureSeededEntropy(3)).tobytes() != one.tobytes()


def test_chunks_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    module, shard = made(dp_models.grouped), shard_of(60)
    dp = DpSgd(momentum=0.2, carry="global")
    trainer, params = trainer_of(module, shard, dp, batch=30)
    carry = np.full(len(params), 0.01)
    whole = trainer.update(params, carry, InsecureSeededEntropy(1))
    monkeypatch.setattr(dp_step, "_CPU_PASS_BYTES", 1)
    one_by_one, _ = trainer_of(module, shard, dp, batch=30)
    np.testing.assert_allclose(
        one_by_one.update(params, carry, InsecureSeededEntropy(1)), whole, rtol=1e-4, atol=1e-6
    )


def test_a_model_beyond_repair_is_given_up_whatever_the_records() -> None:
    trainer, params = trainer_of(made(lambda: dp_models.dense(5)), shard_of(20), DpSgd())
    for broken in (np.full_like(params, np.float32(3e38)), np.full_like(params, np.nan)):
        with pytest.raises(TrainingDivergedError, match="finite"):
            trainer.update(broken, None, InsecureSeededEntropy(1))
        with pytest.raises(TrainingDivergedError, match="finite"):
            trainer.update(broken, None, Fixed())
    assert np.isfinite(trainer.update(params, None, InsecureSeededEntropy(1))).all()


def test_a_record_without_a_finite_gradient_is_no_reason_to_fail() -> None:
    """Otherwise whoever sends the model could ask, without noise, whether a party holds such a record."""
    module, shard = made(lambda: dp_models.dense(5)), shard_of(20)
    x = shard.x.copy()
    x[7] = np.float32(3e38)
    trainer, params = trainer_of(module, dataclasses.replace(shard, x=x), DpSgd(), batch=20)
    # Each of the first unit's products overflows by itself: sums alone may cancel, depending on their order.
    params[: x[7].size] = 2.0
    update = trainer.update(params, None, InsecureSeededEntropy(1))
    kept = np.arange(20) != 7
    without = Shard(shard.x[kept], shard.y[kept], CLASSES, SHAPE)
    rest, _ = trainer_of(module, without, DpSgd(), batch=19)
    expected = rest.update(params, None, InsecureSeededEntropy(1)) * 19 / 20
    np.testing.assert_allclose(update, expected, rtol=1e-4, atol=1e-6)


def test_a_record_on_which_the_model_raises_is_left_out_alone() -> None:
    """Else one record would zero its whole batch, which no noise hides."""
    module, shard = made(dp_models.Picky), shard_of(20)
    x = shard.x.copy()
    x[7] = 101.0
    trainer, params = trainer_of(module, dataclasses.replace(shard, x=x), DpSgd(), batch=20)
    update = trainer.update(params, None, InsecureSeededEntropy(1))
    kept = np.arange(20) != 7
    rest, _ = trainer_of(module, Shard(shard.x[kept], shard.y[kept], CLASSES, SHAPE), DpSgd(), batch=19)
    expected = rest.update(params, None, InsecureSeededEntropy(1)) * 19 / 20
    assert expected.any()
    np.testing.assert_allclose(update, expected, rtol=1e-4, atol=1e-6)


def test_bad_arguments_are_bugs() -> None:
    module = made(lambda: dp_models.dense(5))
    trainer, params = trainer_of(module, shard_of(20), DpSgd(momentum=0.1, carry="own"))
    size, entropy = len(params), InsecureSeededEntropy(1)
    for carry in (np.zeros(size - 1), np.zeros(size, np.float32), np.full(size, np.inf)):
        with pytest.raises(UsageError, match="carry"):
            trainer.update(params, carry, entropy)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"params|vector"):
        trainer.update(params[1:], None, entropy)
    without, _ = trainer_of(module, shard_of(20), DpSgd(momentum=0.1))
    with pytest.raises(UsageError, match="off"):
        without.update(params, np.zeros(size), entropy)


def test_more_records_a_batch_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"training.batch_size: DP-SGD draws 21 records.* 20"):
        trainer_of(made(dp_models.dense), shard_of(20), DpSgd(), batch=21)


def test_batch_norm_is_refused() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.Linear(6, CLASSES))
    with pytest.raises(ConfigError, match="GroupNorm"):
        trainer_of(module, shard_of(20), DpSgd())
