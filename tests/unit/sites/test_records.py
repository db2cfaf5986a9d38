"""Hidden records at sites: the library samples, bounds and steps, whatever one record does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import securefl
from securefl.base.arrays import F32, F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.scenario.privacy import ClipEach, DpSgd
from securefl.scenario.scenario import Training
from securefl.training.data.shards import Shard
from securefl.training.dpsgd.trainer import DpSgdTrainer
from securefl.training.models.flatten import to_vector
from securefl.training.sites.layout import Layout
from securefl.training.sites.log import SiteLog
from securefl.training.sites.torch_site import TorchSite
from securefl.training.sites.trainer import SiteTrainer
from tests.foreign_errors import all_errors
from tests.looped import looped
from tests.tiers import sampled

CPU = torch.device("cpu")
RECORDS, INPUTS, CLASSES = 24, 5, 3
X = np.random.default_rng(0).standard_normal((RECORDS, INPUTS)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, CLASSES, RECORDS)
CLIP = DpSgd(bound=ClipEach(norm=0.5))
SAMPLE = Training(batch_size=RECORDS, dp_sgd=CLIP)
"""Everything is drawn."""


class Awkward(Dataset[Any]):
    """Pairs, but for one record, which ``spoil`` makes of the good one."""

    def __init__(self, spoil: Callable[[Any, Any], Any], at: int = 7) -> None:
        self._spoil, self._at = spoil, at

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, row: int) -> Any:
        x, y = torch.from_numpy(X[row]), int(Y[row])
        return self._spoil(x, y) if row == self._at else (x, y)


def model_of(seed: int = 1) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(INPUTS, 4), nn.Tanh(), nn.Linear(4, CLASSES))


def site_of(dataset: Any = None, **more: Any) -> TorchSite:
    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)) if dataset is None else dataset
    more.setdefault("model", model_of())
    more.setdefault("loss", nn.CrossEntropyLoss())
    return TorchSite(more.pop("model"), DataLoader(dataset, 4), more.pop("loss"), _sgd, **more)


def _sgd(weights: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(weights, lr=0.1)


def layout_of(site: TorchSite) -> Layout:
    """In alphabetical order, as a file of weights has it."""
    return Layout({name: array.shape for name, array in sorted(site.parameters().items())})


def update_of(site: TorchSite, training: Training = SAMPLE, carry: F64 | None = None) -> F64:
    layout = layout_of(site)
    trainer = SiteTrainer(site, layout, 3, SiteLog(None), training=training)
    params: F32 = layout.vector(site.parameters(), "").astype(np.float32)
    return trainer.update(0, params, carry, InsecureSeededEntropy(5))


def test_it_is_the_step_of_the_built_in_trainer() -> None:
    """Another order of parameters, other examples in memory, the loss one by one: the same update."""
    training = Training(batch_size=6, dp_sgd=DpSgd(bound=ClipEach(norm=0.5), momentum=0.2, carry="global"))
    module = model_of()
    shard = Shard(X, Y, CLASSES, (INPUTS,))
    assert training.dp_sgd is not None
    built_in = DpSgdTrainer(module, shard, training, training.dp_sgd, CPU)
    carry = np.random.default_rng(2).standard_normal(Layout.of(module).length)
    expected = built_in.update(to_vector(module), carry, InsecureSeededEntropy(5))
    site = site_of()
    layout = layout_of(site)
    carried: dict[str, F64] = Layout.of(module).arrays(carry)
    moved = layout.vector(carried, "")
    found = update_of(site, training, moved)
    assert not np.array_equal(carry, moved)
    named: dict[str, F64] = Layout.of(module).arrays(expected)
    np.testing.assert_allclose(found, layout.vector(named, ""), rtol=1e-5, atol=1e-7)


def test_each_record_moves_it_by_the_bound_at_most() -> None:
    whole = update_of(site_of())
    for row in range(RECORDS):
        without = update_of(site_of(Awkward(_raise, row)))
        assert np.linalg.norm(whole - without) <= 0.5 / RECORDS + 1e-9


def _raise(_x: Any, _y: Any) -> Any:
    raise OSError("a damaged file")


@pytest.mark.parametrize(
    "spoil",
    [
        _raise,
        lambda _x, y: (torch.ones(2), y),
        lambda x, y: (x.double(), y),
        lambda x, _y: (x, CLASSES + 4),
        lambda x, _y: (x, torch.tensor([1, 2])),
        lambda x, y: (x * float("nan"), y),
        lambda _x, _y: 3,
        lambda _x, _y: sys.exit(3),
    ],
    ids=["raises", "shape", "dtype", "label", "labels", "nan", "no pair", "exits"],
)
def test_a_record_that_cannot_be_used_costs_its_own_gradient_only(spoil: Any) -> None:
    """Else the whole batch's zeros would tell of one record, beyond what noise hides."""
    spoilt = update_of(site_of(Awkward(spoil)))
    kept = [row for row in range(RECORDS) if row != 7]
    rest = TensorDataset(torch.from_numpy(X[kept]), torch.from_numpy(Y[kept]))
    # The divisor is the expected size of a batch, here 24 and there 23.
    expected = update_of(site_of(rest), Training(batch_size=RECORDS - 1, dp_sgd=CLIP))
    np.testing.assert_allclose(spoilt, expected * (RECORDS - 1) / RECORDS, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("every", sampled([8, 1], [8]))
@pytest.mark.parametrize("where", ["data set", "loss", "model"])
def test_an_exception_of_any_class_costs_its_own_gradient_only(where: str, every: int) -> None:
    """In a worker thread: of the data set, or of the loss or the model on one record."""
    kept = [row for row in range(RECORDS) if row != 7]
    rest = TensorDataset(torch.from_numpy(X[kept]), torch.from_numpy(Y[kept]))
    expected = update_of(site_of(rest), Training(batch_size=RECORDS - 1, dp_sgd=CLIP))
    mark = float(X[7, 0])
    for error in all_errors()[::every]:

        def raises(*_: Any, error: BaseException = error) -> Any:
            raise error

        class Failing(nn.Module):
            def __init__(self, inner: nn.Module, fails: Any = raises) -> None:
                super().__init__()
                self.inner, self.fails = inner, fails

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if bool((x[..., 0] == mark).any()):
                    self.fails()
                scores: torch.Tensor = self.inner(x)
                return scores

        more = {
            "data set": {"dataset": Awkward(raises)},
            "loss": {"dataset": Awkward(lambda x, _y: (x, 99)), "loss": LossOf(raises)},
            "model": {"model": Failing(model_of())},
        }[where]
        found: list[Any] = []
        thread = threading.Thread(target=_add_update, args=(found, more))
        thread.start()
        thread.join()
        assert len(found) == 1, error
        np.testing.assert_allclose(
            found[0], expected * (RECORDS - 1) / RECORDS, rtol=1e-4, atol=1e-7, err_msg=str(type(error))
        )


def _add_update(found: list[Any], site: dict[str, Any]) -> None:
    found.append(update_of(site_of(**site)))


class LossOf(nn.CrossEntropyLoss):
    """Fails on the label 99."""

    def __init__(self, fails: Any) -> None:
        super().__init__()
        self.fails = fails

    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if bool((labels == 99).any()):
            self.fails()
        return super().forward(scores, labels)


def test_what_failed_is_counted_in_the_sites_own_log(tmp_path: Path) -> None:
    site = site_of(Awkward(_raise))
    layout = layout_of(site)
    log = SiteLog(tmp_path / "log")
    trainer = SiteTrainer(site, layout, 3, log, training=SAMPLE)
    trainer.update(0, layout.vector(site.parameters(), "").astype(np.float32), None, InsecureSeededEntropy(1))
    assert '"failed": 1.0' in (tmp_path / "log").read_text()


def test_a_regression_with_a_loss_of_its_own() -> None:
    target = torch.from_numpy(X.sum(axis=1, keepdims=True))
    site = site_of(
        TensorDataset(torch.from_numpy(X), target), model=nn.Linear(INPUTS, 1), loss=nn.HuberLoss()
    )
    update = update_of(site)
    arrays, slopes = site.parameters(), []
    for x, y in zip(X.astype(float), target.numpy().astype(float)[:, 0], strict=True):
        error = np.clip(x @ arrays["weight"][0] + arrays["bias"][0] - y, -1, 1)
        slope = np.concatenate(([error], error * x))
        slopes.append(slope * min(1.0, 0.5 / np.linalg.norm(slope)))
    np.testing.assert_allclose(update, -np.sum(slopes, axis=0) / RECORDS, rtol=1e-4, atol=1e-7)


def test_a_loss_that_would_mix_records_meets_one_at_a_time() -> None:
    """The spread of a batch's scores is nothing of one record's: it adds nothing here."""

    def mixing(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        spread = (scores - scores.mean(dim=0)).square().sum()
        return nn.functional.cross_entropy(scores, labels) + spread

    np.testing.assert_allclose(update_of(site_of(loss=mixing)), update_of(site_of()), rtol=1e-5, atol=1e-8)


class Mixing(nn.Module):
    """Its scores depend on the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(INPUTS, CLASSES)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(x - x.mean(dim=0))


class Remembering(Mixing):
    """Its scores depend on all examples before."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = torch.zeros(INPUTS)

    def forward(self, x: torch.Tensor) -> Any:
        if self.training:
            self.sum = self.sum + x.detach().sum(dim=0)
        return self.last(x - self.sum)


class Pair(Mixing):
    """It returns two things."""

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(x), x


class Moody(Mixing):
    """It does not train."""

    def forward(self, x: torch.Tensor) -> Any:
        if self.training:
            raise ValueError("not today")
        return self.last(x)


class InPlace(Mixing):
    """It overwrites what it is given."""

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(x.mul_(3.0))


def test_a_record_that_raises_leaves_what_others_were_before_it() -> None:
    """A model works in place on inputs; a loss raises in the middle of the batch."""

    def strict(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if int(labels) >= CLASSES:
            raise ValueError(labels)
        return nn.functional.cross_entropy(scores, labels)

    torch.manual_seed(1)
    model = InPlace()
    whole = update_of(site_of(model=model, loss=strict))
    without = update_of(site_of(Awkward(lambda x, _y: (x, CLASSES)), model=model, loss=strict))
    assert 0 < np.linalg.norm(whole - without) <= 0.5 / RECORDS + 1e-9


def test_records_need_not_be_alike() -> None:
    """The first one's type is not everybody's: else it would decide whether others count."""
    single = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    first = site_of(Awkward(lambda x, y: (x, np.int32(y)), 0), loss=_as_long)
    np.testing.assert_allclose(update_of(first), update_of(site_of(single)), rtol=1e-5, atol=1e-8)


def _as_long(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(scores, labels.long())


def test_words_of_a_small_vocabulary() -> None:
    words = TensorDataset(torch.from_numpy(Y % 2)[:, None], torch.from_numpy(Y))
    model = nn.Sequential(nn.Embedding(2, 4), nn.Flatten(), nn.Linear(4, CLASSES))
    assert np.linalg.norm(update_of(site_of(words, model=model))) > 0


def test_a_dense_layer_that_somebody_changed_is_not_taken_for_one() -> None:
    layer = nn.Linear(INPUTS, CLASSES)

    def forward(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x - x.mean(dim=0) if layer.training else x, layer.weight, layer.bias)

    layer.forward = forward  # type: ignore[method-assign,assignment]
    update = layout_of(site_of(model=layer)).arrays(update_of(site_of(model=layer)))
    assert np.abs(update["weight"]).max() < 1e-12  # alone, an example less its mean is nothing


class Stream(torch.utils.data.IterableDataset[Any]):
    """Without numbers."""

    def __iter__(self) -> Any:
        return iter([])


@looped(
    "make, said",
    [
        (
            lambda: site_of(train=lambda _m, _t: None),
            r"TorchSite\(train=\): cannot be used with privacy\.unit = record",
        ),
        (
            lambda: site_of(personal=["0.*"]),
            r"TorchSite\(personal=\): cannot be used with privacy\.unit = record, where the server",
        ),
        (
            lambda: site_of(keep_optimiser=True),
            r"TorchSite\(keep_optimiser=\): cannot be used with privacy\.unit = record, where the server",
        ),
        (
            lambda: site_of(method=securefl.FedProx(mu=1)),
            r"TorchSite\(method=\): cannot be used with privacy\.unit = record, where the server",
        ),
        (
            lambda: site_of(model=nn.Sequential(nn.Linear(INPUTS, 3), nn.BatchNorm1d(3))),
            "floating-point state, which the server cannot average",
        ),
        (
            lambda: site_of(
                model=nn.Sequential(nn.Linear(INPUTS, 3), nn.BatchNorm1d(3, track_running_stats=False))
            ),
            " is a BatchNorm1d: DP-SGD needs the gradient of each example by itself",
        ),
        (lambda: site_of(model=Mixing()), "output of an example depends on others in its batch"),
        (lambda: site_of(Stream(), samples=9), "Stream cannot be indexed, which drawing"),
        (lambda: site_of(model=Remembering()), "output of an example depends on earlier ones, which"),
        (lambda: site_of([{"x": 1, "y": 2}] * RECORDS), "make no batch: TypeError"),
        (lambda: site_of([7] * RECORDS), "make no batch: ValueError"),
        (lambda: site_of(model=Pair()), "fails on a single example: 'tuple' object"),
        (
            lambda: site_of(model=Moody()),
            'fails on a single example in training, with ValueError: "not today"',
        ),
        (
            lambda: SimpleNamespace(samples=3),
            "SimpleNamespace has its own training loop, and privacy of records",
        ),
    ],
)
def test_refusals(make: Any, said: str) -> None:
    site = make()
    with pytest.raises(ConfigError, match=said):
        SiteTrainer(site, Layout({}), 3, SiteLog(None), training=SAMPLE)


SCENARIO = """
name = "hidden"
parties = 6
[model]
type = "weights"
file = "{file}"
[training]
batch_size = 8
[training.dp_sgd]
[privacy]
unit = "record"
epsilon = 8
delta = 1e-3
records = 24
[weighting]
mode = "ignore"
[encoding]
range = 8
[secure_sum]
threshold = 3
min_survivors = 3
[clustering]
size = 3
[stop]
rounds = 2
"""


class TestScenario:
    def scenario(self, tmp_path: Path, **more: Any) -> Any:
        first = tmp_path / "first.safetensors"
        securefl.save_weights(first, site_of().parameters())
        path = tmp_path / "s.toml"
        path.write_text(SCENARIO.format(file=first))
        return securefl.load(path, more)

    def test_a_federation_that_hides_records(self, tmp_path: Path) -> None:
        scenario = self.scenario(tmp_path)
        result = securefl.simulate(scenario, site=lambda _name: site_of(), seed=3, out=tmp_path / "run")
        assert result.rounds[-1].epsilon is not None
        assert 0 < max(e for e in result.rounds[-1].epsilon.values() if e is not None) <= 8
        assert {*result.arrays()} == {*site_of().parameters()}

    def test_a_site_that_trains_as_it_likes_is_refused(self, tmp_path: Path) -> None:
        scenario = self.scenario(tmp_path)
        with pytest.raises(ConfigError, match="TorchSite\\(train=\\)"):
            securefl.simulate(
                scenario, site=lambda _name: site_of(train=lambda _m, _t: None), out=tmp_path / "run"
            )
