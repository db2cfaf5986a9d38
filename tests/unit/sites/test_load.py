"""Sites by name, and the file of the parameters that they begin with."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save

import securefl
from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import PartyId
from securefl.scenario import own_name
from securefl.training.models.flatten import dimension, frozen_digest, load_vector, to_vector
from securefl.training.models.tensors import read_tensors, write_tensors
from securefl.training.sites.layout import Layout
from securefl.training.sites.load import make_site, site_maker

P0 = PartyId("p00")
LAYOUT = Layout({"w": (2,)})
LAYOUTS: list[dict[str, Any]] = [{"a": np.zeros(6)}, {"b": np.zeros(6)}, {"a": np.zeros((2, 3))}]


def given(**more: Any) -> Any:
    held = {"w": np.zeros(2)}
    return lambda _name: SimpleNamespace(**{"samples": 3, "parameters": lambda: held, "fit": None} | more)


def test_a_site_is_made_of_the_partys_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ward_of_tests.py").write_text(
        "import numpy as np\n"
        "class Ward:\n"
        "    def __init__(self, name):\n"
        "        self.name, self.samples = name, 4\n"
        "    def parameters(self):\n"
        "        return {'w': np.zeros(2, np.float32)}\n"
        "    def fit(self, parameters, context):\n"
        "        return parameters, 4, {}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    made: Any = make_site(site_maker("ward_of_tests:Ward"), P0, LAYOUT)
    assert (made.name, made.samples) == ("p00", 4)
    for name, reason in [
        ("ward_of_tests:Nix", "has no Nix"),
        ("ward_of_tests:np", "is not a class or function"),
        ("no_such_module:Ward", "cannot be imported: ModuleNotFoundError"),
        ("ward_of_tests", "'ward_of_tests' does not name a site"),
        ("ward_of_tests:", "'ward_of_tests:' does not name a site"),
    ]:
        with pytest.raises(ConfigError, match=reason) as refused:
            site_maker(name)
        assert str(refused.value).startswith("--site")
    del sys.modules["ward_of_tests"]


@pytest.mark.parametrize(
    ("maker", "said"),
    [
        (given(samples=0), "p00 has 0 samples, expected a whole number of 1 or more"),
        (given(samples=2.5), "p00 has 2.5 samples"),
        (given(samples=True), "p00 has True samples"),
        (given(parameters=dict), "p00: parameters() returned no array w, but nothing"),
        (
            given(parameters=lambda: {"w": np.zeros(3)}),
            "p00: parameters() returned w of shape (3,), expected (2,)",
        ),
        (given(parameters=lambda: 1 / 0), "in <lambda>: ZeroDivisionError: division by zero"),
        (given(parameters=lambda: sys.exit(4)), "in <lambda>: SystemExit: 4"),
        (lambda _name: SimpleNamespace(samples=3), "has no parameters and no fit"),
        (lambda name: Path("/nowhere", name).read_text(), "in <lambda>: FileNotFoundError"),
    ],
)
def test_a_site_that_cannot_be_used_is_refused_in_one_line(maker: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_site(maker, P0, LAYOUT)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_arrays_come_back_by_name_and_in_the_order_of_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    arrays = {"head.bias": rng.normal(size=3), "body.0.weight": rng.normal(size=(2, 3)), "scale": np.ones(())}
    path = tmp_path / "initial.safetensors"
    digest = write_tensors(path, arrays)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    module = read_tensors(str(path), digest)
    layout = Layout.of(module)
    assert dimension(module) == layout.length == 10
    vector = to_vector(module)
    back = layout.arrays(vector)
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array.astype(np.float32))
    np.testing.assert_array_equal(layout.vector(back, "it has"), vector)
    load_vector(module, vector + 1)
    np.testing.assert_array_equal(to_vector(module), vector + 1)
    assert torch.equal(dict(module.named_parameters())["scale"].detach(), torch.tensor(2.0))
    with pytest.raises(UsageError):
        module(torch.zeros(2))


def test_other_names_and_other_shapes_are_another_model(tmp_path: Path) -> None:
    """The same numbers: only the digest of the layout tells them apart."""
    digests = set()
    for number, arrays in enumerate(LAYOUTS):
        path = tmp_path / f"{number}.safetensors"
        write_tensors(path, arrays)
        digests.add(frozen_digest(read_tensors(str(path))))
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({}, "holds no arrays"),
        ({"w": np.zeros(2, np.float16)}, "w has dtype float16, expected float32"),
        ({"w": np.zeros(2, np.int64)}, "w has dtype int64, expected float32"),
        ({"w": np.array([np.nan], np.float32)}, "w is empty, or holds numbers that are not finite"),
        ({"w": np.zeros((0, 3), np.float32)}, "w is empty, or holds"),
        (
            {"a": np.zeros(1, np.float32), "a.b": np.zeros(1, np.float32)},
            "the array 'a.b' has a name that clashes",
        ),
        ({"forward": np.zeros(1, np.float32)}, "the array 'forward' has a name that clashes"),
        ({"a..b": np.zeros(1, np.float32)}, "the array 'a..b' has a name that clashes"),
        ({"a" + ".a" * 5000: np.zeros(1, np.float32)}, "has a name of more than 100 dots"),
    ],
)
def test_a_file_that_no_run_can_begin_with_is_refused(
    arrays: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(save(arrays))
    with pytest.raises(ConfigError) as refused:
        read_tensors(str(path))
    assert said in str(refused.value)


def test_missing_damaged_and_other_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "initial.safetensors"
    with pytest.raises(ConfigError, match=r"model.file.*cannot be read: No such file"):
        read_tensors(str(path))
    path.write_bytes(b"\x00" * 40)
    with pytest.raises(ConfigError, match="is not a safetensors file"):
        read_tensors(str(path))
    write_tensors(path, {"w": np.zeros(2)})
    with pytest.raises(ConfigError, match=r"model.sha256.*the scenario states 00000000"):
        read_tensors(str(path), "0" * 64)


def test_nothing_is_written_of_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "initial.safetensors"
    for arrays in ({"w": np.zeros(2, int)}, {"w": np.full(2, 1e300)}, {"a": np.ones(1), "a.b": np.ones(1)}):
        with pytest.raises(ConfigError):
            write_tensors(path, arrays)
    assert list(tmp_path.iterdir()) == []


def importable(_name: str) -> Any:
    """Found in this module by its name."""


class TestPythonsOwn:
    """Classes and functions in place of ``module:name``, for other processes."""

    def test_a_function_of_a_module_is_named(self) -> None:
        assert own_name(importable) == f"{__name__}:importable"

    @pytest.mark.parametrize(
        ("made", "said"),
        [
            (lambda _name: None, "TestPythonsOwn.<lambda>"),
            (SimpleNamespace(), "SimpleNamespace"),
            (given(), "given.<locals>.<lambda>"),
        ],
    )
    def test_what_no_other_process_finds_is_refused(self, made: Any, said: str) -> None:
        with pytest.raises(ConfigError, match=rf"site: {re.escape(said)} cannot be imported .*mysite:Site"):
            own_name(made)

    def test_so_is_one_of_the_program_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importable, "__module__", "__main__")
        with pytest.raises(ConfigError, match="importable cannot be imported"):
            securefl.run(SCENARIO, site=importable)

    def test_an_interpreter_of_its_own_is_not_ignored(self) -> None:
        with pytest.raises(ConfigError, match="site_python: /nowhere/python is not a file"):
            securefl.simulate(SCENARIO, site=importable, site_python="/nowhere/python")
        with pytest.raises(ConfigError, match="site_memory: needs a site in a process"):
            securefl.simulate(SCENARIO, site=importable, site_memory=4)


SCENARIO = securefl.Scenario(name="load", parties=3)
