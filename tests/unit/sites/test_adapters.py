"""What apps of other frameworks need that no framework is needed to test: names, order, first models."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from securefl.base.errors import ConfigError
from securefl.scenario import load_scenario
from securefl.training.models.tensors import read_tensors, write_tensors
from securefl.training.sites.adapters.app_arrays import AppArrays
from securefl.training.sites.adapters.offer import Refused
from securefl.training.sites.layout import Layout
from securefl.training.sites.load import open_site
from securefl.training.sites.maker import first_of, maker_of
from tests.tiers import sampled
from tests.unit.cli.programs import call

PYTHON = Path(sys.executable)
MODELS = """
import numpy as np
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.z = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)
        self.a = nn.Linear(2, 1)

class Half(nn.Linear):
    def __init__(self):
        super().__init__(2, 1, dtype=torch.bfloat16)

def weights():
    return [np.ones((2, 3)), np.zeros(4, np.float32)]

def by_name():
    return {"b": np.ones(2), "a": np.arange(3), "flags": np.array([True])}

class Site:
    samples = 4
    fit = None
    def __init__(self, name):
        self.name = name
    def parameters(self):
        return {"b": np.ones(2), "a": np.ones(1)}

class Ordered(Site):
    order = np.arange(3)
    local = {"a": 1}

module = Net()

def several(width, depth):
    return Net()

def text():
    return {"a": np.array(["x"])}

def nothing():
    return None

def integers():
    return {"a": np.arange(3)}

def huge():
    return {"a": np.ones(1), "table": np.zeros(100_001, int)}
"""


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "models_of_tests.py").write_text(MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("models_of_tests", None)


def first(name: str, python: Path | None, *local: str) -> tuple[Any, Any]:
    return open_site(first_of(f"models_of_tests:{name}", python, local), "p00")  # type: ignore[arg-type]


@pytest.mark.parametrize("python", [None, PYTHON])
def test_a_torch_module_has_its_own_order_and_integers_stay(python: Path | None) -> None:
    made, arrays = first("Net", python)
    names = ["z.weight", "z.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]
    names += ["norm.num_batches_tracked", "a.weight", "a.bias"]
    assert made.state_head["order"] == names
    assert made.state_head["local"] == {"norm.num_batches_tracked": ["int64", [], [0]]}
    assert arrays.keys() == set(names) - {"norm.num_batches_tracked"}


@pytest.mark.parametrize(
    ("name", "local", "order", "travels"),
    [
        ("Half", (), ["weight", "bias"], {"weight", "bias"}),
        ("weights", (), ["0000", "0001"], {"0000", "0001"}),
        ("by_name", (), ["b", "a", "flags"], {"b"}),
        ("module", ("norm.running_*", "z.*"), None, {"norm.weight", "norm.bias", "a.weight", "a.bias"}),
    ],
)
def test_first_models_of_other_kinds(
    name: str, local: tuple[str, ...], order: list[str] | None, travels: set[str]
) -> None:
    made, arrays = first(name, None, *local)
    assert order is None or made.state_head["order"] == order
    assert arrays.keys() == travels
    assert set(made.state_head["local"]) == set(made.state_head["order"]) - travels


@pytest.mark.parametrize("python", sampled([None, PYTHON], [None]))
@pytest.mark.parametrize(
    ("name", "local", "said"),
    [
        ("several", (), "p00: takes width, depth (name a function without arguments"),
        ("text", (), "p00: a has dtype <U1, expected numbers"),
        ("nothing", (), "p00: makes NoneType, expected a site, a torch module, or arrays by name"),
        ("integers", (), "p00: has no array of floating-point numbers that travels"),
        ("huge", (), "p00: has 100,001 numbers that do not travel, more than 100,000"),
        ("Net", ("head.*",), "p00: --local 'head.*' fits none of z.weight, z.bias, norm.weight"),
    ],
)
def test_what_makes_no_model_is_told_so_in_one_line(
    name: str, local: tuple[str, ...], said: str, python: Path | None
) -> None:
    with pytest.raises(ConfigError) as refused:
        first(name, python, *local)
    assert str(refused.value).startswith(f"--site models_of_tests:{name}: {said}")
    assert "\n" not in str(refused.value)


def test_a_site_is_still_a_site_and_its_file_the_same(tmp_path: Path) -> None:
    made, arrays = first("Site", None)
    assert made.name == "p00"
    plain = write_tensors(tmp_path / "plain.safetensors", arrays)
    assert plain == write_tensors(tmp_path / "again.safetensors", dict(sorted(arrays.items())))


def test_the_command_writes_what_an_app_gets_back(tmp_path: Path) -> None:
    file = tmp_path / "first.safetensors"
    words = ("--local", "norm.running_*", "--out", str(file))
    done = call("site", "weights", "models_of_tests:Net", *words)
    assert done.exit_code == 0, done.stderr
    assert "3 arrays kept at the sites: norm.running_mean, norm.running_var, norm.num_batches_tracked" in (
        done.stdout
    )
    layout = Layout.of(read_tensors(str(file)))
    assert list(layout.shapes) == ["a.bias", "a.weight", "norm.bias", "norm.weight", "z.bias", "z.weight"]
    arrays = AppArrays(str(file))
    complete = arrays.complete(load_file(file))
    assert list(complete)[-3:] == ["norm.num_batches_tracked", "a.weight", "a.bias"]
    np.testing.assert_array_equal(complete["norm.running_var"], np.ones(2, np.float32))
    assert complete["norm.num_batches_tracked"].dtype == np.int64
    refused = call("site", "weights", "models_of_tests:Site", *words)
    assert refused.exit_code == 2
    assert "refused --local: is for a Flower app only" in refused.stderr


def test_what_does_not_travel_is_there_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "first.safetensors"
    given = {"b": np.ones(2, np.float32), "a": np.zeros(1, np.float32)}
    write_tensors(file, given, {"order": ["b", "n", "a"], "local": {"n": ["int64", [], [7]]}})
    arrays = AppArrays(str(file))
    whole = arrays.complete(given)
    assert list(whole) == ["b", "n", "a"]
    whole["b"] += 5
    np.testing.assert_array_equal(given["b"], np.ones(2))
    assert list(arrays.keep({**whole, "n": np.int64(8), "extra": np.ones(3)})) == ["b", "a"]
    assert list(arrays.complete(given)) == ["b", "n", "a", "extra"]
    assert arrays.complete(given)["n"] == 8
    assert list(arrays.add({"b": np.ones(2), "n": np.int64(2)})) == ["b"]
    assert arrays.complete(given)["n"] == 10
    assert list(arrays.arrays_by_name([1, 2, 3, 4], "fit returned").values()) == [1, 2, 3, 4]
    with pytest.raises(Refused, match=r"fit returned 1 arrays, expected 4: b, n, a, extra"):
        arrays.arrays_by_name([1], "fit returned")


@pytest.mark.parametrize(
    ("order", "local"),
    [
        (["a"], {}),
        (["a", "b", "c"], {}),
        (["a", "b", "b"], {}),
        (["a", "b"], {"b": ["float32", [2], [1, 2]]}),
        (["a", "b", "n"], {"n": ["float32", [3], [1, 2]]}),
        (["a", "b", "n"], {"n": ["O", [1], [{}]]}),
        (["a", "b", "n"], {"n": 3}),
        ([1, "b"], {}),
    ],
)
def test_a_head_that_lies_is_refused_before_the_first_round(order: Any, local: Any, tmp_path: Path) -> None:
    """The file comes from whoever set the federation up: no app may train with fewer arrays, or others."""
    file = tmp_path / "first.safetensors"
    write_tensors(file, {"a": np.zeros(1), "b": np.ones(2)}, {"order": order, "local": local})
    with pytest.raises(Refused, match=r"the head of first.safetensors says nothing of an app"):
        AppArrays(str(file))


@pytest.mark.parametrize("python", [(), ("--site-python", str(PYTHON))])
def test_what_a_site_calls_order_and_local_is_its_own(python: tuple[str, ...], tmp_path: Path) -> None:
    files = [tmp_path / "plain.safetensors", tmp_path / "own.safetensors"]
    for site, file in zip(["Site", "Ordered"], files, strict=True):
        done = call("site", "weights", f"models_of_tests:{site}", "--out", str(file), *python)
        assert done.exit_code == 0, done.output
        assert "stay at the sites" not in done.stdout
    assert files[0].read_bytes() == files[1].read_bytes()


def test_parameters_without_names_are_refused(tmp_path: Path) -> None:
    for parameters, said in [([np.ones(1)], "are list"), ({1: np.ones(1)}, "are other names than text")]:
        with pytest.raises(ConfigError, match=f"parameters: {said}, expected a mapping of arrays by name"):
            write_tensors(tmp_path / "w", parameters)  # type: ignore[arg-type]


def test_scripts_are_found_or_refused(tmp_path: Path) -> None:
    write_tensors(tmp_path / "w.safetensors", {"w": np.zeros(2)})
    (tmp_path / "federation.toml").write_text(
        'name = "x"\nparties = 2\n[model]\ntype = "weights"\nfile = "w.safetensors"\n'
        "[clustering]\nsize = 2\n[secure_sum]\nthreshold = 2\nmin_survivors = 2\n"
    )
    scenario = load_scenario(tmp_path / "federation.toml")
    (tmp_path / "train.py").touch()
    for name, python, said in [
        (
            "other.py --epochs 2",
            PYTHON,
            r"--site other\.py --epochs 2: other\.py was found neither here nor beside the scenario",
        ),
        ("train.py", None, r"is a script, which needs a process of its own \(--site-python names"),
        (
            "train.py",
            tmp_path / "no" / "python",
            r"--site-python: .* is not a file",
        ),
    ]:
        with pytest.raises(ConfigError, match=said):
            maker_of(name, scenario, python, 0)
    with pytest.raises(ConfigError, match=r"train\.py: has no parameters, as every script"):
        first_of("train.py", PYTHON, ())
