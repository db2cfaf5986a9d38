"""Gradients of the other records of a batch, and the sum, with and without one record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from securefl.base.arrays import F32, F64, I64
from securefl.methods.privacy.sensitivity import sum_error
from securefl.scenario.privacy import ClipEach, DpSgd, Normalise
from securefl.training.data.pool import SamplePool
from securefl.training.dpsgd import step as dp_step
from securefl.training.dpsgd.bounded import BoundedSums, PartyRows
from securefl.training.dpsgd.examples import Examples
from securefl.training.dpsgd.source import DatasetSource, PoolSource
from securefl.training.dpsgd.step import DpStep, DrawnBatch, fixed_passes
from securefl.training.dpsgd.ways import OneByOne
from securefl.training.models.flatten import to_vector
from tests.tiers import covering
from tests.unit.training import dp_models
from tests.unit.training.dp_models import CLASSES, SHAPE, images, made

CPU = torch.device("cpu")
LARGE = np.float32(1e3)
"""Factor of the weights: small differences of single precision become large, and flip whole gradients."""


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16, bias=False), nn.Linear(16, CLASSES, bias=False))


def cancelling(params: F32) -> F32:
    """Weights of :func:`linear` that make scores of images with two like halves large rounding errors."""
    first, last = np.split(params.copy(), [64 * 16])
    halves = first.reshape(16, 2, 32)
    halves[:, 1] = -halves[:, 0]
    return np.concatenate([first, last * np.float32(1e9)])


MODELS: dict[str, Callable[[], nn.Module]] = {
    "layers": lambda: dp_models.dense(32),
    "cancelling": linear,
    "elu": dp_models.elu,
    "convolutions": dp_models.grouped,
    "paper": dp_models.paper_cnn,
    "mapped": dp_models.skipping,
    "one-by-one": dp_models.twice,
}
BYTES = (1, 1 << 16, 1 << 18, 8 << 20)
"""Memory of a fixed pass: from one row a pass to all slots in one pass."""


class Recorder(BoundedSums):
    """Keeps the gradients of each row that counts, in the order of the calls."""

    kept: list[tuple[Examples, PartyRows]]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        Recorder.kept = []

    def add(self, examples: Examples, spans: Sequence[PartyRows]) -> None:
        Recorder.kept += [(examples, span) for span in spans]
        super().add(examples, spans)


def bits_of(examples: Examples, row: int) -> bytes:
    """All numbers from which one row's gradient is computed, and its length."""
    parts = [examples.squares[row : row + 1].tobytes()]
    for block in examples._blocks:
        names = [name for name in ("rows", "inputs", "slopes") if hasattr(block, name)]
        parts += [getattr(block, name)[row].numpy().tobytes() for name in names]
    return b"".join(parts)


def counted() -> list[tuple[Examples, int]]:
    """Each row of the last update that counted, and the gradients that it is one of."""
    rows = []
    for examples, span in Recorder.kept:
        assert span.present is not None
        rows += [(examples, row) for row in np.flatnonzero(span.present).tolist()]
    return rows


def gradients(step: DpStep, records: I64, slots: I64) -> tuple[F64, dict[int, bytes]]:
    """The update, and the bits of each record's gradient."""
    update = step.update(DrawnBatch(records, records, None), slots)
    order = [records[each.picks[np.argsort(each.places)]] for each in fixed_passes(slots, step.rows)]
    drawn = [int(record) for records_of_pass in order for record in records_of_pass]
    found = {record: bits_of(*row) for record, row in zip(drawn, counted(), strict=True)}
    return update, found


def step_of(make: Callable[[], nn.Module], dp: DpSgd, batch: int, records: int = 200) -> DpStep:
    module = made(make)
    x, y = images(records)
    x[:, :, 4:] = x[:, :, :4]
    pool = SamplePool(torch.from_numpy(x.reshape(records, -1)), torch.from_numpy(y))
    step = DpStep(module, PoolSource(pool, SHAPE), batch, dp)
    params = to_vector(module) * LARGE
    step.load(cancelling(params) if make is linear else params)
    return step


@pytest.fixture(autouse=True)
def recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_step, "BoundedSums", Recorder)


@pytest.mark.parametrize(("model", "memory"), covering(MODELS, BYTES))
def test_without_any_one_record_the_others_have_the_same_gradients_to_the_last_bit(
    model: str, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of 3, and on both sides of the rows of a pass and of the slots of a batch."""
    monkeypatch.setattr(dp_step, "_CPU_FIXED_BYTES", memory)
    step = step_of(MODELS[model], DpSgd(bound=Normalise()), 6)
    rng, moves = np.random.default_rng(7), list[float]()
    sizes = {2, 3, 8, step.rows - 1, step.rows, step.rows + 1, step.slots - 1, step.slots}
    for size in sorted(size for size in sizes if 2 <= size <= step.slots):
        records = np.sort(rng.choice(200, size, replace=False))
        slots = rng.permutation(step.slots)[:size]
        whole, with_all = gradients(step, records, slots)
        assert sorted(with_all) == records.tolist()
        for gone in range(0, size, max(1, size // 6)):
            kept = np.arange(size) != gone
            rest, without = gradients(step, records[kept], slots[kept])
            assert without == {record: bits for record, bits in with_all.items() if record != records[gone]}
            moved = np.linalg.norm(whole - rest) * 6
            assert moved <= 1 + sum_error(size, whole.size, carried=False)
            moves.append(float(moved))
    assert max(moves) > 0.99


def test_neighbours_of_a_record_that_raises_have_the_same_gradients_without_it() -> None:
    """A pass that raises is computed again, one example at a time, in a tensor of the same size."""
    module = made(dp_models.Picky)
    x, y = images(20)
    x[4] = 101.0
    pool = SamplePool(torch.from_numpy(x.reshape(20, -1)), torch.from_numpy(y))
    dp = DpSgd(momentum=0.5, carry="own")
    step = DpStep(module, PoolSource(pool, SHAPE), 6, dp)
    step.load(to_vector(module) * LARGE)
    records, slots = np.array([1, 4, 9]), np.array([5, 2, 0])
    carry = np.ones(len(to_vector(module)))
    found = []
    for kept in ([0, 1, 2], [0, 2]):
        update = step.update(DrawnBatch(records[kept], records[kept], carry), slots[kept])
        found.append((sorted(bits_of(*row) for row in counted()), update))
    assert len(found[0][0]) == 2
    assert found[0][0] == found[1][0]
    # The record itself adds nothing, its share of the carry included.
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)


class Shapes(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Images, every third one larger, which the model takes as well."""

    def __init__(self) -> None:
        self._x, self._y = images(30)

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        x = torch.from_numpy(self._x[index])
        return (torch.cat([x, x], dim=1) if index % 3 == 1 else x), int(self._y[index])


def test_records_of_another_shape_have_a_tensor_of_a_fixed_size_too() -> None:
    module = made(
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, CLASSES)
        )
    )
    step = DpStep(module, DatasetSource(Shapes(), nn.CrossEntropyLoss(), CPU), 6, DpSgd())
    step.load(to_vector(module) * LARGE)
    records, slots = np.array([0, 1, 4, 5, 7]), np.array([5, 2, 0, 9, 11])
    found = []
    for kept in ([0, 1, 2, 3, 4], [0, 1, 3, 4]):
        step.update(DrawnBatch(records[kept], records[kept], None), slots[kept])
        found.append({bits_of(*row) for row in counted()})
        assert {len(examples.squares) for examples, _ in Recorder.kept} == {step.rows}
    assert len(found[0]) == 5
    assert found[1] < found[0]
    assert len(found[1]) == 4


@pytest.mark.parametrize("bound", [Normalise(), ClipEach(norm=0.5)])
@pytest.mark.parametrize("miss", [0.0, 1e-12, 1e-6, 1.0])
def test_with_a_carry_that_nearly_cancels_a_gradient_the_sum_moves_by_the_stated_bound(
    bound: Normalise | ClipEach, miss: float
) -> None:
    norm = bound.norm if isinstance(bound, ClipEach) else 1.0
    dp = DpSgd(bound=bound, momentum=0.5, carry="own")
    step = step_of(MODELS["layers"], dp, 6)
    plain = step_of(MODELS["layers"], DpSgd(bound=ClipEach(norm=1e30)), 1)
    records, slots = np.arange(3), np.array([3, 0, 7])
    own = plain.update(DrawnBatch(records[:1], records[:1], None), slots[:1])
    carry = own * (1 + miss)
    whole = step.update(DrawnBatch(records, records, carry), slots)
    for gone in range(3):
        kept = np.arange(3) != gone
        rest = step.update(DrawnBatch(records[kept], records[kept], carry), slots[kept])
        error = sum_error(3, whole.size, carried=True)
        assert np.linalg.norm(whole - rest) * 6 <= norm * (1 + error)


def test_a_way_by_single_examples_computes_no_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    step = step_of(MODELS["one-by-one"], DpSgd(), 6)
    assert isinstance(step.way, OneByOne)
    assert step.rows > 3
    passes, losses = [], step.way._losses

    def counting(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        passes.append(len(scores))
        return losses(scores, labels)

    monkeypatch.setattr(step.way, "_losses", counting)
    records = np.arange(3)
    step.update(DrawnBatch(records, records, None), np.array([9, 1, 4]))
    assert passes == [1, 1, 1]
