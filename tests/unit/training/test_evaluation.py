from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from securefl.base.arrays import F32, I64, Inputs
from securefl.base.errors import UsageError
from securefl.training.data.shards import Shard
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import to_vector
from securefl.training.models.parts.custom import CustomModel
from securefl.training.models.parts.lstm import Lstm
from securefl.training.models.parts.softmax import Softmax
from securefl.training.sgd import evaluation
from securefl.training.sgd.evaluation import Evaluator
from securefl.training.sgd.outcomes import Evaluation
from tests.unit.training.builders import blobs

CPU = torch.device("cpu")
IDENTITY: F32 = np.array([1, 0, 0, 1, 0, 0], dtype=np.float32)
"""Two inputs, two classes: the scores are the inputs."""


def evaluator(x: list[list[float]], y: list[int]) -> Evaluator:
    shard = Shard(np.array(x, dtype=np.float32), np.array(y, dtype=np.int64), 2, (2,))
    return Evaluator(build_model(Softmax(), (2,), 2, seed=1), shard, CPU)


def test_accuracy_and_loss_by_hand() -> None:
    result = evaluator([[1, 0], [0, 1], [1, 0]], [0, 1, 1]).evaluate(IDENTITY)
    right, wrong = math.log(1 + math.exp(-1)), math.log(1 + math.exp(1))
    assert result.accuracy == pytest.approx(2 / 3)
    assert result.loss == pytest.approx((2 * right + wrong) / 3)


def test_batches_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = blobs(100)
    params = np.random.default_rng(0).standard_normal(15).astype(np.float32)

    def result() -> Evaluation:
        return Evaluator(build_model(Softmax(), (4,), 3, seed=1), shard, CPU).evaluate(params)

    whole = result()
    monkeypatch.setattr(evaluation, "BATCH", 7)
    assert result().accuracy == whole.accuracy
    assert result().loss == pytest.approx(whole.loss)


def test_in_a_text_each_position_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = np.random.default_rng(0).integers(0, 5, (9, 7))
    x, y = tokens[:, :-1].copy(), tokens[:, 1:].copy()
    module = build_model(Lstm(hidden=6), (6,), 5, seed=1, tokens=True)
    params = to_vector(module)
    with torch.no_grad():
        scores = module(torch.from_numpy(x)).transpose(1, 2).reshape(-1, 5)
        loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(y.ravel()))
        right = (scores.argmax(1).numpy() == y.ravel()).mean()
    monkeypatch.setattr(evaluation, "TEXT_BATCH", 4)
    result = Evaluator(module, Shard(x, y, 5, (6,)), CPU).evaluate(params)
    assert result.accuracy == pytest.approx(right)
    assert result.loss == pytest.approx(float(loss), rel=1e-5)
    broken = Evaluator(module, Shard(x, y, 5, (6,)), CPU).evaluate(np.full_like(params, np.nan))
    assert broken == Evaluation(0.0, math.inf)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_broken_parameters_score_nothing(value: float) -> None:
    params = IDENTITY.copy()
    params[:] = value
    # A NaN would win the arg max of class 0, so count it wrong even where the label is 0.
    assert evaluator([[1, 1], [2, 1]], [0, 0]).evaluate(params) == Evaluation(0.0, math.inf)


def test_one_broken_score_spoils_the_loss_but_not_the_other_samples() -> None:
    params = IDENTITY.copy()
    params[0] = np.inf
    # inf * 0 is NaN for the first sample as well: only finite scores count, here none; then one is.
    result = evaluator([[1e38, 0], [1, 0]], [0, 0]).evaluate(np.array([1e5, 0, 0, 1, 0, 0], dtype=np.float32))
    assert result == Evaluation(0.5, math.inf)
    assert evaluator([[0, 1]], [1]).evaluate(params) == Evaluation(0.0, math.inf)


def test_dropout_is_off() -> None:
    shard = blobs(40)
    model = CustomModel(factory="tests.unit.training.factories:with_dropout")
    judge = Evaluator(build_model(model, (4,), 3, seed=1), shard, CPU)
    params = np.random.default_rng(0).standard_normal(15).astype(np.float32)
    assert judge.evaluate(params) == judge.evaluate(params)


def test_params_that_do_not_fit() -> None:
    with pytest.raises(UsageError):
        evaluator([[1, 0]], [0]).evaluate(IDENTITY[:5])


def test_a_backdoor_succeeds_where_the_triggered_samples_get_its_class() -> None:
    shard = Shard(np.array([[1, 0], [0, 1], [0, 3]], dtype=np.float32), np.array([0, 1, 1]), 2, (2,))

    def trigger(x: Inputs, y: I64) -> tuple[Inputs, I64]:
        others = y != 0
        seen = x[others].copy()
        seen[:, 0] = 2.0
        return seen, np.zeros(int(others.sum()), dtype=np.int64)

    module = build_model(Softmax(), (2,), 2, seed=1)
    result = Evaluator(module, shard, CPU, trigger).evaluate(IDENTITY)
    assert result.backdoor_success == 0.5
    plain = Evaluator(module, shard, CPU).evaluate(IDENTITY)
    assert (plain.accuracy, plain.loss, plain.backdoor_success) == (result.accuracy, result.loss, None)
    nothing = Evaluator(module, shard, CPU, lambda x, y: (x[:0], y[:0])).evaluate(IDENTITY)
    assert nothing.backdoor_success is None
