"""Default generators of Python, numpy and torch around a site's calls."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import securefl
from securefl.base.entropy import InsecureSeededEntropy
from securefl.training.models.generators import seeded_generators
from securefl.training.sites.apart import SiteProcess, site_apart
from securefl.training.sites.layout import Layout
from securefl.training.sites.load import make_site, site_maker
from securefl.training.sites.log import SiteLog
from securefl.training.sites.trainer import SiteTrainer
from tests.live.federated import run_program

SITE = """
import random
import numpy as np
import torch

def drawn():
    return np.array([random.random(), np.random.rand(), torch.rand(1).item()], np.float32)

class Draws:
    samples = 4
    def __init__(self, name):
        self.made = drawn()
    def parameters(self):
        return {"made": np.zeros(3, np.float32), "fitted": np.zeros(3, np.float32)}
    def evaluate(self, parameters, context):
        return 4, {"metric": float(drawn().sum())}
    def fit(self, parameters, context):
        return {"made": self.made, "fitted": parameters["fitted"] + drawn()}, 4, {}
"""
SCENARIO = """
name = "draws"
parties = 3
[model]
type = "weights"
file = "{file}"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[encoding]
scale_bits = 20
[stop]
rounds = 2
"""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "wards_that_draw.py").write_text(SITE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    first = {name: np.zeros(3, np.float32) for name in ("made", "fitted")}
    securefl.save_weights(tmp_path / "first.safetensors", first)
    path = tmp_path / "draws.toml"
    path.write_text(SCENARIO.format(file=tmp_path / "first.safetensors"))
    return path


def simulated(scenario: Path, out: str, seed: int = 3, **more: Any) -> dict[str, Any]:
    found = securefl.simulate(
        scenario,
        site="wards_that_draw:Draws",
        seed=seed,
        seeded=True,
        exact=True,
        out=scenario.parent / out,
        **more,
    )
    return dict(found.arrays())


def test_a_simulation_is_repeated_to_the_bit(scenario: Path) -> None:
    one = simulated(scenario, "one")
    random.random()  # the state of this process is another one now
    np.random.rand()  # noqa: NPY002 - the generator that sites use
    torch.rand(1)
    again, other = simulated(scenario, "again"), simulated(scenario, "other", seed=4)
    for name, array in one.items():
        np.testing.assert_array_equal(array, again[name])
        assert (array != other[name]).all()


@pytest.mark.live
def test_a_run_has_the_bits_of_its_simulation(scenario: Path) -> None:
    words = ("--site", "wards_that_draw:Draws", "--seed", "3", "--insecure-seeded-entropy")
    ended = run_program(scenario, scenario.parent / "run", *words)
    assert ended.exit_code == 0, ended.stderr
    there = load_file(scenario.parent / "run" / "model.safetensors")
    for name, array in simulated(scenario, "simulated").items():
        np.testing.assert_array_equal(array, there[name])


@pytest.mark.skipif(sys.platform != "linux", reason="a site in a process of its own needs Linux")
def test_a_site_in_its_own_process_draws_as_in_the_partys(scenario: Path) -> None:
    layout = Layout({"made": (3,), "fitted": (3,)})
    maker = site_apart("wards_that_draw:Draws", SiteProcess(Path(sys.executable)), 60.0)
    apart, here = maker("p00"), site_maker("wards_that_draw:Draws")("p00")
    updates = []
    for site in (apart, here):
        trainer = SiteTrainer(site, layout, 2, SiteLog(None))
        entropy = InsecureSeededEntropy(5)
        updates.append(trainer.update(0, np.zeros(6, np.float32), None, entropy)[3:])
    apart.close()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(updates[0], updates[1])


def test_the_callers_generators_are_left_as_they_were() -> None:
    def drawn() -> list[float]:
        return [random.random(), float(np.random.rand()), torch.rand(1).item()]  # noqa: NPY002

    with seeded_generators(1):
        expected = drawn()
    with seeded_generators(2):
        first, inner = drawn(), []
        with seeded_generators(1):
            inner = drawn()
        second = drawn()
    assert inner == expected
    with seeded_generators(2):
        assert [*drawn(), *drawn()] == [*first, *second]


def test_sites_of_one_party_begin_alike_and_those_of_two_do_not(scenario: Path) -> None:
    layout, maker = Layout({"made": (3,), "fitted": (3,)}), site_maker("wards_that_draw:Draws")
    made: list[Any] = [
        make_site(maker, "p00", layout, None, InsecureSeededEntropy(seed))  # type: ignore[arg-type]
        for seed in (1, 1, 2)
    ]
    assert made[0].made.tolist() == made[1].made.tolist() != made[2].made.tolist()


def test_the_header_names_what_is_not_controlled(scenario: Path) -> None:
    lines = securefl.explain(securefl.load(scenario)).splitlines()
    assert any("also sites' generators: Python's, numpy's and torch's are seeded" in line for line in lines)
    assert any("not seeded: its own generators" in line and "os.urandom" in line for line in lines)
    assert not any(
        "not seeded" in line for line in securefl.explain(securefl.load("quickstart")).splitlines()
    )
