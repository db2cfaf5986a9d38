"""Tensors that travel: read anew from the module, under plain names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from securefl.base.errors import ConfigError
from securefl.training.models import plain_name
from securefl.training.sites.layout import SiteError
from securefl.training.sites.sent_tensors import HeldTensors
from securefl.training.sites.site import RoundContext
from securefl.training.sites.torch_site import TorchSite

X, Y = torch.ones(8, 3), torch.zeros(8, 1)


def linear() -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(3, 1)


def site_of(model: nn.Module, **more: Any) -> TorchSite:
    loader = DataLoader(TensorDataset(X, Y), batch_size=4)
    return TorchSite(
        model, loader, nn.functional.mse_loss, lambda weights: torch.optim.SGD(weights, lr=0.1), **more
    )


def told(number: int = 0) -> RoundContext:
    return RoundContext(number, 1, 7)


def wrapped(kind: str, inside: nn.Module) -> nn.Module:
    if kind == "compiled":
        return torch.compile(inside, backend="eager")  # type: ignore[return-value]
    return nn.DataParallel(inside)


@pytest.mark.parametrize("kind", ["compiled", "parallel"])
def test_wrappers_leave_no_trace_in_names(kind: str) -> None:
    plain = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    whole = site_of(wrapped(kind, plain), buffers="average")
    part = site_of(nn.Sequential(wrapped(kind, nn.Linear(3, 3)), nn.BatchNorm1d(3)), buffers="average")
    names = ["0.bias", "0.weight", "1.bias", "1.running_mean", "1.running_var", "1.weight"]
    assert sorted(whole.parameters()) == sorted(part.parameters()) == names
    assert site_of(wrapped(kind, linear()), personal=["bias"]).parameters().keys() == {"weight"}


def test_a_part_that_is_named_as_a_wrapper_is_kept() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(3, 1)

    assert plain_name(Odd(), "module.weight") == "module.weight"
    assert plain_name(nn.DataParallel(Odd()), "module.module.weight") == "module.weight"


def test_parameters_that_user_code_replaces_are_those_that_train_and_travel() -> None:
    begun = []

    def train(model: nn.Module, _context: RoundContext) -> dict[str, float]:
        assert isinstance(model, nn.Linear)
        begun.append(model.weight.detach().clone())
        changed = {name: value + 1 for name, value in model.state_dict().items()}
        model.load_state_dict(changed, assign=True)
        return {}

    site = TorchSite(linear(), train=train, samples=8)
    first = site.parameters()
    for number in range(2):
        after, _, _ = site.fit(first, told(number))
        np.testing.assert_array_equal(after["weight"], first["weight"] + 1)
    torch.testing.assert_close(begun[0], begun[1])


def test_a_kept_optimiser_does_not_step_parameters_that_are_gone() -> None:
    model = linear()
    site = site_of(model, keep_optimiser=True)
    first = site.parameters()
    site.fit(first, told())
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)
    after, _, _ = site.fit(first, told(1))
    assert not np.array_equal(after["weight"], first["weight"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda model: setattr(model, "bias", None), "bias is no longer in the model"),
        (
            lambda model: model.double(),
            r"weight has become \(1, 3\) torch.float64, it was \(1, 3\) torch.float32",
        ),
        (lambda model: setattr(model, "weight", nn.Parameter(torch.zeros(1, 4))), r"become \(1, 4\)"),
    ],
    ids=["gone", "another dtype", "another shape"],
)
def test_what_no_longer_fits_fails_by_name(change: Callable[[nn.Module], Any], said: str) -> None:
    model = linear()
    held = HeldTensors(model, (), "local")
    change(model)
    with pytest.raises(SiteError, match=said):
        held.parameters()


def test_a_model_without_what_travels_is_refused() -> None:
    with pytest.raises(ConfigError, match="shares no parameter: all are frozen or personal"):
        HeldTensors(linear(), ("*",), "local")
