"""Corrections of each gradient that torch makes: sparse, absent, of half precision, channels last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from securefl.base.errors import ConfigError
from securefl.scenario import ClipEach, DpSgd
from securefl.scenario.local_method import LocalMethod
from securefl.training.local_methods.correction import Correction, KeptControls
from securefl.training.local_methods.parts.fedprox import FedProx
from securefl.training.local_methods.parts.scaffold import Scaffold
from securefl.training.sites.site import RoundContext
from securefl.training.sites.torch_site import TorchSite

METHODS = [FedProx(mu=0.5), Scaffold()]
BOTH = pytest.mark.parametrize("method", METHODS, ids=["fedprox", "scaffold"])
MSE = nn.functional.mse_loss


class Words(nn.Module):
    """The mean of word vectors, and a linear layer."""

    def __init__(self, *, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.words = nn.Embedding(10, 3, sparse=sparse)
        self.last = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(self.words(x).mean(1))


def sgd(weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(weights, lr=0.1)


def site(model: nn.Module, x: torch.Tensor, method: LocalMethod, optimiser: Any = sgd) -> TorchSite:
    torch.manual_seed(2)
    y = torch.randn(len(x), 1).to(x.dtype if x.is_floating_point() else torch.float32)
    return TorchSite(model, DataLoader(TensorDataset(x, y), batch_size=4), MSE, optimiser, method=method)


def two_rounds(made: TorchSite) -> dict[str, Any]:
    parameters = made.parameters()
    for number in range(2):
        parameters, _, _ = made.fit(parameters, RoundContext(number, 2, 7))
    return dict(parameters)


def check_alike(one: dict[str, Any], other: dict[str, Any], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], rtol=tolerance, atol=tolerance)


@BOTH
def test_sparse_gradients_train_as_dense_ones(method: LocalMethod) -> None:
    x = torch.randint(0, 10, (16, 4), generator=torch.Generator().manual_seed(3))
    found = [two_rounds(site(Words(sparse=sparse), x, method)) for sparse in (True, False)]
    check_alike(*found, 1e-6)  # type: ignore[call-arg, arg-type]


@BOTH
def test_channels_last_trains_as_contiguous(method: LocalMethod) -> None:
    def model() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 1))

    x = torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(3))
    kept = model().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    there = two_rounds(site(kept, x.contiguous(memory_format=torch.channels_last), method))
    check_alike(there, two_rounds(site(model(), x, method)), 1e-5)
    assert not kept[0].weight.is_contiguous()


def test_a_weight_without_a_gradient_is_corrected() -> None:
    """FedProx pulls it back as the literature's loss does; SCAFFOLD counts a gradient of zeros."""
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    correction = Correction(FedProx(mu=0.5), [weight], [], KeptControls())
    with torch.no_grad():
        weight.add_(4.0)
    (pull,) = correction.correct([None])
    assert pull is not None
    assert pull.tolist() == [2.0, 2.0]

    kept = KeptControls()
    kept.own = [torch.tensor([1.0, 1.0])]
    correction = Correction(Scaffold(), [weight], [torch.tensor([3.0, 5.0])], kept)
    (drift,) = correction.correct([None])
    assert drift is not None
    assert drift.tolist() == [2.0, 4.0]
    correction.correct([torch.tensor([6.0, 6.0])])
    assert correction.end()[0].tolist() == [3.0, 3.0]


@BOTH
def test_a_weight_that_training_has_frozen_stays_frozen(method: LocalMethod) -> None:
    weight = nn.Parameter(torch.ones(2), requires_grad=False)
    controls = [torch.ones(2)] if method.controls else []
    assert Correction(method, [weight], controls, KeptControls()).correct([None]) == [None]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_corrected_in_single_precision(dtype: torch.dtype) -> None:
    """A sum of 1,000 gradients overflows float16, and stands still in bfloat16."""
    weight = nn.Parameter(torch.zeros(1, dtype=dtype))
    correction = Correction(Scaffold(), [weight], [torch.zeros(1, dtype=dtype)], KeptControls())
    for _ in range(1000):
        (corrected,) = correction.correct([torch.full((1,), 100.0, dtype=dtype)])
        assert corrected is not None
        assert corrected.dtype == dtype
    (mean,) = correction.end()
    assert mean.tolist() == [100.0]


@BOTH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_sites_of_other_dtypes_follow_single_precision(method: LocalMethod, dtype: torch.dtype) -> None:
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(3))

    def model() -> nn.Module:
        torch.manual_seed(1)
        return nn.Linear(4, 1)

    tolerance = {torch.float16: 1e-2, torch.bfloat16: 1e-1, torch.float64: 1e-5}[dtype]
    there = two_rounds(site(model().to(dtype), x.to(dtype), method))
    check_alike(there, two_rounds(site(model(), x, method)), tolerance)


def test_control_variates_of_half_precision_keep_single_precision() -> None:
    made = site(nn.Linear(4, 1).half(), torch.randn(16, 4).half(), Scaffold())
    controls = {name: np.full_like(array, 70_000.0) for name, array in made.parameters().items()}
    given = {**made.parameters(), **{n: a for n, a in controls.items() if n.startswith("control/")}}
    made._load(given)
    assert made.parameters()["control/weight"].tolist() == [[70_000.0] * 4]


@BOTH
def test_an_optimiser_of_sparse_gradients_only_is_refused_before_the_run(method: LocalMethod) -> None:
    def sparse(weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SparseAdam(list(weights))

    with pytest.raises(ConfigError, match="SparseAdam takes sparse ones only"):
        site(Words(sparse=True), torch.zeros(4, 4, dtype=torch.int64), method, sparse)


MODELS: list[tuple[str, Callable[[], nn.Module], torch.Tensor]] = [
    ("sparse gradients", lambda: Words(sparse=True), torch.zeros(8, 4, dtype=torch.int64)),
    ("dtype torch.float16", lambda: nn.Linear(4, 1).half(), torch.zeros(8, 4).half()),
]


@pytest.mark.parametrize(("said", "model", "x"), MODELS, ids=[said for said, _, _ in MODELS])
def test_records_without_a_bounded_gradient_are_refused_before_the_run(
    said: str, model: Callable[[], nn.Module], x: torch.Tensor
) -> None:
    """With sparse gradients each example failed in silence, and the round sent noise."""
    made = TorchSite(model(), DataLoader(TensorDataset(x, torch.zeros(8, 1)), batch_size=4), MSE, sgd)
    with pytest.raises(ConfigError, match=said):
        made.record_steps(4, DpSgd(bound=ClipEach(norm=1.0)))
