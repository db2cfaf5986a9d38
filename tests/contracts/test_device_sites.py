"""Contract of torch sites on any device, against the usual loop in double precision."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from securefl.base.arrays import F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.scenario import DpSgd
from securefl.training.models.flatten import to_vector
from securefl.training.sites.site import RoundContext
from securefl.training.sites.torch_site import TorchSite
from tests.contracts.devices import CLASSES, SMOOTH, device, distance, flat, in_double, shard_of, smooth_model
from tests.contracts.test_device_dpsgd import by_definition

__all__ = ["device"]

SHARD = shard_of(40)


def with_batch_norm() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.Tanh(), nn.Flatten(), nn.Linear(216, CLASSES)
    )


def loader(dtype: torch.dtype = torch.float32) -> DataLoader[Any]:
    data = TensorDataset(torch.from_numpy(SHARD.x).to(dtype), torch.from_numpy(SHARD.y))
    return DataLoader(data, batch_size=8)


def site_of(module: nn.Module, device: torch.device, **options: Any) -> TorchSite:
    return TorchSite(
        module,
        loader(),
        cross_entropy,
        lambda weights: torch.optim.SGD(weights, 0.05, momentum=0.5),
        epochs=2,
        device=device,
        **options,
    )


def usual_loop(module: nn.Module) -> tuple[nn.Module, list[float]]:
    """Two epochs in double precision; the losses of the last one."""
    twin = copy.deepcopy(module).to("cpu", torch.float64).train()
    optimiser = torch.optim.SGD(twin.parameters(), 0.05, momentum=0.5)
    losses: list[float] = []
    for _ in range(2):
        losses = []
        for x, y in loader(torch.float64):
            optimiser.zero_grad()
            loss = cross_entropy(twin(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(loss.item())
    return twin, losses


def joined(arrays: Any, module: nn.Module) -> F64:
    """The arrays of a module's parameters, in their order."""
    vector: F64 = np.concatenate([np.ravel(arrays[name]) for name, _ in module.named_parameters()])
    return vector


@pytest.mark.parametrize("buffers", ["local", "average"])
def test_fit_is_the_usual_loop(buffers: str, device: torch.device) -> None:
    module = with_batch_norm()
    start, (twin, losses) = to_vector_of(module), usual_loop(module)
    site = site_of(module, device, buffers=buffers)
    arrays, samples, metrics = site.fit(site.parameters(), RoundContext(0, 2, 7))
    assert samples == len(SHARD.y)
    assert distance(joined(arrays, twin), flat(twin), start) < SMOOTH
    assert metrics["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    assert all(array.dtype == np.float32 and array.flags.c_contiguous for array in arrays.values())
    running = {name for name in arrays if "running" in name}
    assert running == ({"1.running_mean", "1.running_var"} if buffers == "average" else set())
    for name in running:
        np.testing.assert_allclose(arrays[name], twin.get_buffer(name), rtol=1e-4, atol=1e-5)
    kept = {name: buffer.cpu() for name, buffer in module.named_buffers()}
    np.testing.assert_allclose(kept["1.running_var"], twin.get_buffer("1.running_var"), rtol=1e-4)


def to_vector_of(module: nn.Module) -> Any:
    return flat(module).astype(np.float32)


def test_what_is_given_is_what_is_read(device: torch.device) -> None:
    """Bit for bit, for arrays that may not be written to as well."""
    site = site_of(with_batch_norm(), device, buffers="average")
    rng = np.random.default_rng(1)
    given = {
        name: np.abs(rng.standard_normal(array.shape)).astype(np.float32)
        for name, array in site.parameters().items()
    }
    for array in given.values():
        array.flags.writeable = False
    site._load(given)
    for name, array in site.parameters().items():
        assert np.array_equal(array, given[name]), name


def test_a_diverged_training_leaves_nothing_at_the_site(device: torch.device) -> None:
    module = with_batch_norm()
    site = site_of(module, device, personal=["4.*"])
    given = site.parameters()
    spoilt = {name: np.full_like(array, np.nan) for name, array in given.items()}
    before = {name: tensor.detach().cpu().clone() for name, tensor in site._staying().items()}
    site.fit(spoilt, RoundContext(0, 2, 7))
    for name, tensor in site._staying().items():
        assert torch.equal(tensor.detach().cpu(), before[name]), name
    arrays, _, _ = site.fit(given, RoundContext(1, 2, 7))
    assert all(np.isfinite(array).all() for array in arrays.values())


def test_a_record_step_is_that_of_the_definition(device: torch.device) -> None:
    module, dp = smooth_model(), DpSgd()
    start = to_vector(module)
    site = TorchSite(module, loader(), cross_entropy, torch.optim.SGD, device=device)
    steps = site.record_steps(6, dp)
    found = steps.step(site.parameters(), None, InsecureSeededEntropy(3))
    expected = by_definition(module, start, SHARD, dp, None, 3)
    assert distance(joined(found, in_double(module, start)), expected) < SMOOTH
