"""``model.load_state_dict(result.state_dict())`` works, strictly, for every module that can be a site."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import securefl
from securefl.training.models.state_dict import complete_state
from tests.cases.users.play import MSE, linear, loader, scenario, sgd
from tests.tiers import covering


class Tied(nn.Module):
    """Two layers of one weight, as embedding and last layer of a language model, and a shared layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)
        self.last.weight = self.first.weight
        self.again = self.first
        self.out = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> Any:
        return self.out(self.last(self.again(self.first(x))))


class Prefixed(nn.Module):
    """A part of it is called as wrappers call theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> Any:
        return self.module(x)


class Stated(nn.Linear):
    """It keeps what is no tensor, a mask with infinities, and half-precision numbers."""

    def __init__(self) -> None:
        super().__init__(4, 1)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
        self.register_buffer("third", torch.tensor([1 / 3], dtype=torch.bfloat16))
        self.register_buffer("flags", torch.tensor([True, False]))
        self.register_buffer("passing", torch.ones(1), persistent=False)


def norm() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


def frozen() -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 3).requires_grad_(requires_grad=False), nn.BatchNorm1d(3), nn.Linear(3, 1)
    )


KINDS: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "plain": (linear, {}),
    "tied": (Tied, {}),
    "prefixed": (Prefixed, {}),
    "stated": (Stated, {}),
    "local-buffers": (norm, {}),
    "averaged-buffers": (norm, {"buffers": "average"}),
    "personal": (norm, {"personal": ("2.*",)}),
    "frozen": (frozen, {}),
    "double": (lambda: norm().double(), {}),
}
WRAPPERS: dict[str, Callable[[nn.Module], Any]] = {
    "bare": lambda model: model,
    "compiled": lambda model: torch.compile(model, backend="eager"),
    "parallel": nn.DataParallel,
    "both": lambda model: torch.compile(nn.DataParallel(model), backend="eager"),
}


def seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return make()


def played(
    folder: Path, kind: str, wrap: str = "bare", extra: str = ""
) -> tuple[securefl.RunResult, dict[str, nn.Module]]:
    """Simulate sites around a kind of module; return the result and the module of each site."""
    make, more = KINDS[kind]
    modules: dict[str, nn.Module] = {}

    def site(name: str) -> securefl.TorchSite:
        model = seeded(make, 0)
        modules[name] = model
        rows: Any = loader(seed=1 + int(name[1:]))
        if kind == "double":
            rows = [(x.double(), y.double()) for x, y in rows]
        return securefl.TorchSite(WRAPPERS[wrap](model), rows, MSE, sgd(0.05), samples=32, **more)

    toml = scenario(folder, site("p00").parameters(), 2, extra)
    securefl.save_weights(folder / "f.safetensors", site("p00"))
    return securefl.simulate(toml, site=site, out=folder / "out", seed=1), modules


@pytest.mark.parametrize(("wrap", "kind"), covering(WRAPPERS, KINDS))
def test_it_loads_strictly_into_a_fresh_module(kind: str, wrap: str, tmp_path: Path) -> None:
    result, sites = played(tmp_path, kind, wrap)
    arrays = result.arrays()
    fresh = seeded(KINDS[kind][0], 7)
    fresh.load_state_dict(result.state_dict())
    first = seeded(KINDS[kind][0], 0).state_dict()
    tied = {"last.weight", "again.weight", "again.bias"}
    for name, tensor in fresh.state_dict().items():
        if name in arrays:
            assert tensor.dtype == first[name].dtype
            assert torch.equal(tensor, torch.from_numpy(arrays[name]).to(tensor.dtype)), name
        elif name not in tied:
            assert torch.equal(tensor, first[name]), name
    assert any(not torch.equal(first[name].float(), torch.from_numpy(one)) for name, one in arrays.items())
    assert sites.keys() == {"p00", "p01", "p02"}


@pytest.mark.parametrize(("wrap", "kind"), covering(WRAPPERS, KINDS))
def test_a_module_takes_its_own_names_and_keeps_what_did_not_travel(
    kind: str, wrap: str, tmp_path: Path
) -> None:
    result, _ = played(tmp_path, kind, wrap)
    bare = seeded(KINDS[kind][0], 7)
    before = copy.deepcopy(bare.state_dict())
    wrapped = WRAPPERS[wrap](bare)
    state = result.state_dict(wrapped)
    assert all(torch.equal(one, before[name]) for name, one in bare.state_dict().items())
    wrapped.load_state_dict(state)
    arrays, tied = result.arrays(), {"last.weight", "again.weight", "again.bias"}
    for name, tensor in bare.state_dict().items():
        if name in arrays:
            assert torch.equal(tensor, torch.from_numpy(arrays[name]).to(tensor.dtype)), name
        elif name not in tied:
            assert torch.equal(tensor, before[name]), name


def test_scaffold_leaves_no_control_variates_in_it(tmp_path: Path) -> None:
    make, _ = KINDS["local-buffers"]

    def site(name: str) -> securefl.TorchSite:
        rows = loader(seed=1 + int(name[1:]))
        return securefl.TorchSite(seeded(make, 0), rows, MSE, sgd(0.05), method=securefl.Scaffold())

    toml = scenario(tmp_path, site("p00").parameters(), 2)
    securefl.save_weights(tmp_path / "f.safetensors", site("p00"))
    result = securefl.simulate(toml, site=site, out=tmp_path / "out", seed=1)
    make().load_state_dict(result.state_dict())
    make().load_state_dict(result.state_dict(make()))


def test_a_model_goes_on_from_the_file_of_a_former_run(tmp_path: Path) -> None:
    """The file that a run leaves begins the next one, and knows the entries that stay."""
    result, _ = played(tmp_path, "local-buffers")
    (tmp_path / "f.safetensors").write_bytes((result.path / "model.safetensors").read_bytes())
    make, more = KINDS["local-buffers"]

    def site(name: str) -> securefl.TorchSite:
        return securefl.TorchSite(make(), loader(seed=1 + int(name[1:])), MSE, sgd(0.05), **more)

    again = securefl.simulate(tmp_path / "f.toml", site=site, out=tmp_path / "again", seed=1)
    make().load_state_dict(again.state_dict())


def test_arrays_without_a_site_are_completed_by_a_module(tmp_path: Path) -> None:
    """A file of arrays alone knows of nothing else; ``state_dict(module)`` does."""
    make, _ = KINDS["tied"]

    def site(name: str) -> securefl.TorchSite:
        return securefl.TorchSite(seeded(make, 0), loader(seed=1 + int(name[1:])), MSE, sgd(0.05))

    toml = scenario(tmp_path, site("p00").parameters(), 1)
    result = securefl.simulate(toml, site=site, out=tmp_path / "out", seed=1)
    with pytest.raises(RuntimeError, match=r"Missing key.*again\.weight"):
        make().load_state_dict(result.state_dict())
    model = make()
    model.load_state_dict(result.state_dict(model))
    assert torch.equal(model.state_dict()["last.weight"], torch.from_numpy(result.arrays()["first.weight"]))


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (nn.Linear(4, 1), r"module: has no 0\.bias, which the model has \(pass the module of the sites\)"),
        (
            nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 1)),
            r"module: 0\.weight has shape \(5, 4\), the model has \(3, 4\)",
        ),
    ],
)
def test_another_module_is_refused(module: nn.Module, said: str, tmp_path: Path) -> None:
    result, _ = played(tmp_path, "local-buffers")
    with pytest.raises(securefl.ConfigError, match=said):
        result.state_dict(module)


def test_a_damaged_head_is_refused_in_one_line(tmp_path: Path) -> None:
    result, _ = played(tmp_path, "local-buffers")
    file = result.path / "model.safetensors"
    save_file(load_file(file), file, {"securefl": '{"local": {"x": ["float32", [3], [1]]}}'})
    with pytest.raises(
        securefl.ConfigError, match=r"the head of the file cannot be read: ValueError.*module"
    ):
        result.state_dict()


class Large(nn.Linear):
    """More numbers stay than the head of a file holds."""

    def __init__(self, count: int) -> None:
        super().__init__(4, 1)
        self.register_buffer("table", torch.arange(count))


@pytest.mark.parametrize(("count", "held"), [(100_000, True), (100_001, False)])
def test_large_entries_are_taken_from_a_module(count: int, held: bool, tmp_path: Path) -> None:
    def site(name: str) -> securefl.TorchSite:
        return securefl.TorchSite(Large(count), loader(seed=1 + int(name[1:])), MSE, sgd(0.05))

    toml = scenario(tmp_path, site("p00").parameters(), 1)
    securefl.save_weights(tmp_path / "f.safetensors", site("p00"))
    result = securefl.simulate(toml, site=site, out=tmp_path / "out", seed=1)
    assert ("table" in result.state_dict()) == held
    Large(count).load_state_dict(result.state_dict(Large(count)))


class Adjacent(nn.Linear):
    """A graph network's neighbours, and complex numbers, which are no JSON."""

    def __init__(self) -> None:
        super().__init__(4, 1)
        self.register_buffer("neighbours", torch.eye(3).to_sparse())
        self.register_buffer("waves", torch.zeros(2, dtype=torch.complex64))


def test_buffers_that_numpy_lacks_are_taken_from_a_module(tmp_path: Path) -> None:
    def site(name: str) -> securefl.TorchSite:
        return securefl.TorchSite(Adjacent(), loader(seed=1 + int(name[1:])), MSE, sgd(0.05))

    toml = scenario(tmp_path, site("p00").parameters(), 1)
    securefl.save_weights(tmp_path / "f.safetensors", site("p00"))
    result = securefl.simulate(toml, site=site, out=tmp_path / "out", seed=1)
    assert result.state_dict().keys() == {"weight", "bias"}
    Adjacent().load_state_dict(result.state_dict(Adjacent()))


@pytest.mark.parametrize(
    "head",
    [
        "[" * 100_000,
        f'{{"local": {{"x": ["int64", [1], [{2**80}]]}}}}',
        '{"local": {"x": ["uint8", [1], [-1]]}}',
        f'{{"local": {{"x": ["float32", [{2**80}], [1]]}}}}',
        '{"tied": {"x": "y", "y": "x"}}',
    ],
    ids=["deep", "large", "negative", "long", "cycle"],
)
def test_a_hostile_head_is_refused_in_one_line(head: str) -> None:
    with pytest.raises(securefl.ConfigError, match="the head of the file cannot be read"):
        complete_state({"weight": torch.zeros(1)}, head)


@pytest.mark.parametrize(("rate", "which"), [(0.05, "best"), (30.0, "last")])
def test_a_summary_names_a_best_model_only_if_it_is_written(rate: float, which: str, tmp_path: Path) -> None:
    def site(name: str) -> securefl.TorchSite:
        batches = loader(seed=1 + int(name[1:]))
        return securefl.TorchSite(linear(), batches, MSE, sgd(rate), evaluate=lambda _model: (32, {"x": 1.0}))

    metrics = '[evaluation]\nrepeats = "accept"\nmetrics = [{ name = "x", kind = "mean" }]\n'
    given = scenario(tmp_path, site("p00").parameters(), 2, metrics)
    chosen = securefl.load(given, {"stop.metric": "x"})
    result = securefl.simulate(chosen, site=site, out=tmp_path / "out", seed=1)
    stated = json.loads((result.path / "summary.json").read_text())
    assert stated["outcome"]["model"]["which"] == which
    assert (result.path / "best.safetensors").exists() == (which == "best")
