"""``TorchSite``: the usual loop over a loader, what travels, and what stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.training.local_methods.parts.fedprox import FedProx
from securefl.training.models.parts.weights import SiteWeights
from securefl.training.sites.layout import Layout, SiteError
from securefl.training.sites.load import make_site
from securefl.training.sites.log import SiteLog
from securefl.training.sites.site import Judged, RoundContext
from securefl.training.sites.torch_site import TorchSite
from securefl.training.sites.trainer import SiteTrainer

X = torch.linspace(-1, 1, 24).reshape(12, 2)
Y = X.sum(dim=1, keepdim=True) * 3


def loader(shuffle: bool = False) -> DataLoader[Any]:
    return DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=shuffle)


def sgd(momentum: float = 0.0) -> Any:
    return lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=momentum)


def linear() -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Linear(2, 1)


def told(number: int = 0, seed: int = 9) -> RoundContext:
    return RoundContext(number, 10, seed)


def equal(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def test_it_descends_as_a_loop_of_torch_does() -> None:
    site = TorchSite(linear(), loader(), nn.MSELoss(), sgd(), epochs=2)
    after, samples, metrics = site.fit(site.parameters(), told())
    twin = linear()
    optimiser = torch.optim.SGD(twin.parameters(), lr=0.1)
    for _ in range(2):
        losses = []
        for x, y in loader():
            optimiser.zero_grad()
            loss = nn.MSELoss()(twin(x), y)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert samples == 12
    assert metrics == {"loss": sum(losses) / 3}
    assert equal(after, {name: weight.detach().numpy() for name, weight in twin.named_parameters()})


def test_it_begins_with_what_it_is_given() -> None:
    site = TorchSite(linear(), loader(), nn.MSELoss(), sgd())
    start = site.parameters()
    first = site.fit(start, told())[0]
    assert not equal(first, start)
    assert equal(site.fit(start, told())[0], first), "whatever the module holds by now"


def test_shuffling_follows_from_the_rounds_seed() -> None:
    def trained(seed: int) -> Mapping[str, Any]:
        site = TorchSite(linear(), loader(shuffle=True), nn.MSELoss(), sgd())
        return site.fit(site.parameters(), told(seed=seed))[0]

    assert equal(trained(4), trained(4))
    assert not equal(trained(4), trained(5))
    torch.manual_seed(8)
    untouched = torch.rand(3)
    torch.manual_seed(8)
    trained(4)
    assert torch.equal(torch.rand(3), untouched), "the caller's generator is as it was"


def test_personal_frozen_and_buffers_stay_and_go_on() -> None:
    body, norm, head = nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)
    model = nn.Sequential(body, norm, head)
    body.bias.requires_grad = False
    site = TorchSite(model, loader(), nn.MSELoss(), sgd(), personal=("2.*",))
    start = site.parameters()
    assert list(start) == ["0.weight", "1.weight", "1.bias"]
    frozen, own = body.bias.clone(), head.weight.clone()
    after = site.fit(start, told())[0]
    assert list(after) == list(start)
    assert torch.equal(body.bias, frozen)
    assert not torch.equal(head.weight, own), "trained, and its own"
    assert norm.num_batches_tracked == torch.tensor(3)
    running = norm.running_mean
    again = site.fit(start, told())[0]
    assert not equal(again, after), "it goes on from its own head"
    assert norm.num_batches_tracked == torch.tensor(6)
    assert norm.running_mean is running


def test_an_optimiser_goes_on_only_where_asked() -> None:
    def second_round(*, keep: bool) -> Mapping[str, Any]:
        site = TorchSite(linear(), loader(), nn.MSELoss(), sgd(momentum=0.9), keep_optimiser=keep)
        start = site.parameters()
        site.fit(start, told())
        return site.fit(start, told(1))[0]

    fresh = TorchSite(linear(), loader(), nn.MSELoss(), sgd(momentum=0.9))
    first = fresh.fit(fresh.parameters(), told())[0]
    assert equal(second_round(keep=False), first)
    assert not equal(second_round(keep=True), first)


def test_a_loop_and_a_test_of_ones_own() -> None:
    def train(model: nn.Module, at: RoundContext) -> dict[str, float]:
        with torch.no_grad():
            for weight in model.parameters():
                weight.fill_(at.number)
        return {"own": 1.0}

    def evaluate(model: nn.Module) -> tuple[int, dict[str, float]]:
        assert not model.training
        assert not torch.is_grad_enabled()
        return 12, {"rmse": float(nn.MSELoss()(model(X), Y)) ** 0.5}

    site = TorchSite(linear(), train=train, evaluate=evaluate, samples=12)
    after, _, metrics = site.fit(site.parameters(), told(3))
    assert equal(after, {"weight": np.full((1, 2), 3.0), "bias": np.full(1, 3.0)})
    assert metrics == {"own": 1.0}
    rmse = float(nn.MSELoss()(3 * X.sum(dim=1, keepdim=True) + 3, Y)) ** 0.5
    assert site.evaluate(after, told(4)) == (12, {"rmse": rmse})
    assert not hasattr(TorchSite(linear(), train=train, samples=12), "evaluate")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TorchSite(linear(), loader(), nn.MSELoss()), "TorchSite: cannot train"),
        (
            lambda: TorchSite(linear(), loader(), nn.MSELoss(), sgd(), samples=13),
            "samples: 13 are stated, and the loader gives 12",
        ),
        (
            lambda: TorchSite(linear, loader(), nn.MSELoss(), sgd()),  # type: ignore[arg-type]
            "model: function is not a torch.nn.Module",
        ),
        (
            lambda: TorchSite(linear(), loader(), nn.MSELoss(), sgd(), method="fedprox"),  # type: ignore[arg-type]
            "method: 'fedprox' is not a local method (pass one, such as securefl.FedProx(mu=0.01))",
        ),
        (
            lambda: TorchSite(linear(), loader(), nn.MSELoss(), sgd(), method=FedProx(mu=-1)),
            "FedProx.mu: expected float > 0.0, found -1",
        ),
        (lambda: TorchSite(linear(), train=lambda *_: None), "samples: is missing: the loader has no length"),
        (
            lambda: TorchSite(linear(), loader(), nn.MSELoss(), sgd(), personal=["nix*"]),
            "personal: 'nix*' matches no trained parameter",
        ),
        (
            lambda: TorchSite(linear(), loader(), nn.MSELoss(), sgd(), personal=["*"]),
            "shares no parameter: all are frozen or personal",
        ),
    ],
)
def test_what_cannot_train_says_so(make: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert said in str(refused.value)


def test_a_loader_without_a_batch_is_said() -> None:
    empty = DataLoader(TensorDataset(X, Y), batch_size=13, drop_last=True)
    site = TorchSite(linear(), empty, nn.MSELoss(), sgd())
    with pytest.raises(SiteError, match="no batch: it has fewer samples than one batch holds, and drop_last"):
        site.fit(site.parameters(), told())


class TestBuffers:
    def normalised(self) -> nn.Sequential:
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))

    def site(self, **more: Any) -> TorchSite:
        return TorchSite(self.normalised(), loader(), nn.MSELoss(), sgd(), **more)

    def test_averaged_ones_travel_and_counts_stay(self) -> None:
        site = self.site(buffers="average")
        begun = site.parameters()
        assert {*begun} - {*self.site().parameters()} == {"1.running_mean", "1.running_var"}
        assert begun["1.running_var"].tolist() == [1.0, 1.0, 1.0]
        after = site.fit(begun, told())[0]
        assert isinstance(after, dict)
        assert not np.allclose(after["1.running_var"], 1.0)
        # They come back as they were sent, and are where the next training begins.
        sent = {**after, "1.running_mean": np.full(3, 5.0, np.float32)}
        again = site.fit(sent, told(1))[0]
        assert isinstance(again, dict)
        twin = TorchSite(self.normalised(), loader(), nn.MSELoss(), sgd(), buffers="average")
        assert equal(again, twin.fit(sent, told(1))[0])

    def test_a_variance_below_zero_counts_as_zero(self) -> None:
        def finite(model: nn.Module) -> Judged:
            return 1, {"finite": float(model(X).isfinite().all())}

        site = self.site(buffers="average", evaluate=finite)
        arrays = {**site.parameters(), "1.running_var": np.full(3, -0.5, np.float32)}
        layout = Layout({name: array.shape for name, array in arrays.items()})
        trainer = SiteTrainer(site, layout, 1, SiteLog(None))
        vector = layout.vector(arrays, "these are").astype(np.float32)
        found = trainer.fit(vector, told(), InsecureSeededEntropy(1))
        assert found.received == {"finite": 1.0}

    @pytest.mark.parametrize("averaged", [(), ("*running_mean",)])
    def test_a_buffer_that_the_scenario_does_not_average_is_refused(self, averaged: tuple[str, ...]) -> None:
        site = self.site(buffers="average")
        shapes = {name: array.shape for name, array in site.parameters().items()}
        make_site(lambda _: site, PartyId("p00"), Layout(shapes, ("*running_mean", "*running_var")))
        with pytest.raises(ConfigError, match=r"the buffer 1\.running_\w+ travels, .*model\.averaged = "):
            make_site(lambda _: site, PartyId("p00"), Layout(shapes, averaged))

    def test_they_are_refused_where_that_is_asked_for(self) -> None:
        with pytest.raises(ConfigError, match=r"the model has 1\.running_mean, which cannot be averaged"):
            self.site(buffers="refuse")
        TorchSite(linear(), loader(), nn.MSELoss(), sgd(), buffers="refuse")
        with pytest.raises(ConfigError, match="'mean' is not a choice"):
            self.site(buffers="mean")


class TestFrozen:
    """Adapters on other bases train another model, and only their own digests tell."""

    def site(self, base: float = 1.0, *, frozen: bool = True) -> TorchSite:
        model = nn.Sequential(linear(), nn.Linear(1, 1))
        first = model[0]
        assert isinstance(first, nn.Linear)
        with torch.no_grad():
            first.weight.fill_(base)
        first.requires_grad_(not frozen)
        return TorchSite(model, loader(), nn.MSELoss(), sgd())

    def test_equal_bases_have_one_digest_whatever_trains(self) -> None:
        one, other = self.site(), self.site()
        one.fit(one.parameters(), told())
        assert one.frozen_sha256 == other.frozen_sha256 != self.site(base=1.5).frozen_sha256
        assert self.site(frozen=False).frozen_sha256 == ""

    def test_a_site_on_another_base_is_refused_by_name(self) -> None:
        layout = Layout({name: array.shape for name, array in self.site().parameters().items()})
        stated = SiteWeights(frozen_sha256=self.site().frozen_sha256)
        make_site(lambda _: self.site(), PartyId("p03"), layout, stated)
        make_site(lambda _: self.site(base=2.0), PartyId("p03"), layout, SiteWeights())
        with pytest.raises(
            ConfigError, match=r"p03: it has frozen parameters with the SHA-256 .* as all other"
        ):
            make_site(lambda _: self.site(base=2.0), PartyId("p03"), layout, stated)
        whole = self.site(frozen=False)
        layout = Layout({name: array.shape for name, array in whole.parameters().items()})
        with pytest.raises(ConfigError, match="p03: it has no frozen parameters, the scenario states"):
            make_site(lambda _: whole, PartyId("p03"), layout, stated)


def test_who_overwrites_what_it_gets_overwrites_copies() -> None:
    """A site of the class itself copies at once, and is spared the copies; a subclass may do otherwise."""

    class Own(TorchSite):
        def fit(self, parameters: Any, context: RoundContext) -> Any:
            for array in parameters.values():
                np.add(array, 1, out=array)
            return parameters, 1, {}

    def train(module: nn.Module, _context: RoundContext) -> None:
        with torch.no_grad():
            for weight in module.parameters():
                weight.add_(1)

    params = np.zeros(3, np.float32)
    params.flags.writeable = False
    for kind in (TorchSite, Own):
        model = linear()
        trainer = SiteTrainer(kind(model, train=train, samples=1), Layout.of(model), 1, SiteLog(None))
        update = trainer.update(0, params, None, InsecureSeededEntropy(1))
        np.testing.assert_array_equal(update, np.ones(3))


class Spoilt(nn.Module):
    """With a layer of the site's own, a norm, and a mask of infinities."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.norm, self.own = nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))

    def forward(self, x: torch.Tensor) -> Any:
        return self.own(self.norm(self.first(x)))


def test_nothing_stays_of_a_training_that_diverged() -> None:
    """One bad model would end a site's part in the run: what stays there is in every later round."""
    model = Spoilt()
    site = TorchSite(model, loader(), nn.MSELoss(), sgd(0.9), personal=["own.*"], keep_optimiser=True)
    begun = site.parameters()
    good, _, _ = site.fit(begun, told())
    held = {name: tensor.clone() for name, tensor in model.state_dict().items() if name not in begun}
    bad, _, _ = site.fit({name: np.full_like(array, 1e38) for name, array in begun.items()}, told(1))
    assert not all(np.isfinite(array).all() for array in bad.values())
    for name in ("own.weight", "own.bias", "norm.running_mean", "norm.running_var", "mask"):
        assert torch.equal(model.state_dict()[name], held[name])
    after, _, _ = site.fit(good, told(2))
    assert all(np.isfinite(array).all() for array in after.values())


def test_a_buffer_of_infinities_is_no_sign_of_it() -> None:
    model = Spoilt()
    site = TorchSite(model, loader(), nn.MSELoss(), sgd(), personal=["own.*"])
    before = model.own.weight.detach().clone()
    site.fit(site.parameters(), told())
    assert not torch.equal(model.own.weight, before)
