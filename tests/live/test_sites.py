"""Sites in whole runs: what they train, what a broken one costs, and the bits of a simulation."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import securefl
from securefl.training.models.tensors import write_tensors
from tests.live.federated import BROKERS, PATIENT, Run, run_program, simulate
from tests.unit.cli.programs import call

pytestmark = pytest.mark.live

SITES = """
import os, sys, time
import numpy as np

class Good:
    samples = 5
    def __init__(self, name):
        self.name = name
    def parameters(self):
        return {"a.w": np.zeros((2, 3), np.float32), "b": np.zeros((), np.float32)}
    def fit(self, parameters, context):
        rng = np.random.default_rng(context.seed)
        after = {n: a + 1 + 0 * rng.normal(size=a.shape) for n, a in parameters.items()}
        return self.broken(after, context), 5, {"mean": after["b"]}
    def broken(self, after, context):
        return after
    def evaluate(self, parameters, context):
        return 2, {"b": parameters["b"]}

class Raises(Good):
    def broken(self, after, context):
        raise KeyError("no such patient")

class NotFinite(Good):
    def broken(self, after, context):
        return after | {"b": np.float32("nan")}

class OtherShape(Good):
    def broken(self, after, context):
        return after | {"b": np.zeros(4)}

class Exits(Good):
    def broken(self, after, context):
        sys.exit("done for today")

class Hangs(Good):
    def broken(self, after, context):
        time.sleep(1000)

class Dies(Good):
    def broken(self, after, context):
        if context.number == 1:
            os._exit(9)
        return after

class Noisy(Good):
    def fit(self, parameters, context):
        rng = np.random.default_rng(context.seed)
        return {n: a + rng.normal(size=a.shape) for n, a in parameters.items()}, 5, {}

def cast(name):
    return [Good, Raises, NotFinite, OtherShape, Exits, Hangs, Dies, Good][int(name[1:])](name)

def shorter(name):
    site = Good(name)
    if name == "p02":
        site.parameters = lambda: {"a.w": np.zeros((3, 2), np.float32), "b": np.zeros((), np.float32)}
    return site
"""
SCENARIO = """
name = "sites"
parties = {parties}
[model]
type = "weights"
file = "{file}"
[clustering]
size = {size}
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 3
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    return made(tmp_path, 8)


def made(folder: Path, parties: int) -> Path:
    (folder / "ward_of_runs.py").write_text(SITES)
    arrays: dict[str, Any] = {"a.w": np.zeros((2, 3)), "b": np.zeros(())}
    write_tensors(folder / "initial.safetensors", arrays)
    scenario = folder / "sites.toml"
    scenario.write_text(
        SCENARIO.format(parties=parties, size=parties - 1, file=folder / "initial.safetensors")
    )
    return scenario


def told(ended: Run, party: str) -> list[dict[str, Any]]:
    lines = (ended.directory.path / f"{party}.site.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("broker", BROKERS)
def test_broken_sites_cost_the_others_nothing(broker: str, scenario: Path, tmp_path: Path) -> None:
    site = ("--site", "ward_of_runs:cast")
    shorter = ("--set", "deadlines.training=30")
    ended = run_program(scenario, tmp_path / "run", *site, "--broker", broker, *shorter)
    assert ended.exit_code == 0, ended.stderr
    everybody = {f"p{i:02d}" for i in range(8)}
    expected = [everybody, everybody - {"p06"}, everybody - {"p06"}]
    assert [set(row["survivors"]) for row in ended.rows] == expected
    assert [row["accuracy"] for row in ended.rows] == [None] * 3
    # A site that fails or hangs sends zeros and weighs as much as it declared: 3 of 8 move it, then 2 of 7.
    model = load_file(ended.directory.path / "model.safetensors")
    where = 3 / 8 + 2 * 2 / 7
    np.testing.assert_allclose(model["a.w"], np.full((2, 3), where), atol=1e-3)
    np.testing.assert_allclose(model["b"], where, atol=1e-3)
    reasons = {
        "p01": "ward_of_runs.py:22 in broken: KeyError: 'no such patient'",
        "p02": "fit returned b with numbers that are not finite",
        "p03": "fit returned b of shape (4,), expected ()",
        "p04": "exits with 'done for today' in place of returning",
    }
    for party, reason in reasons.items():
        assert [entry["error"] for entry in told(ended, party)] == [reason] * 3
    assert [entry["received"]["b"] for entry in told(ended, "p00")] == pytest.approx(
        [0, 3 / 8, 3 / 8 + 2 / 7], abs=1e-3
    )
    assert (
        "p02: round 1: training failed, so zeros were sent: fit returned b with numbers that are not finite"
        in ended.stdout
    )
    # Nobody but the site itself is told why.
    for file in (ended.directory.path / "transcripts").glob("server*"):
        assert b"patient" not in file.read_bytes()


@pytest.mark.parametrize("apart", [(), ("--site-python", sys.executable)], ids=["here", "apart"])
def test_a_run_has_the_bits_of_its_simulation(apart: tuple[str, ...], tmp_path: Path) -> None:
    scenario = made(tmp_path, 5)
    site = ("--site", "ward_of_runs:Noisy", "--insecure-seeded-entropy", "--seed", "4")
    ran = run_program(scenario, tmp_path / "run", *site, *apart, *PATIENT)
    simulated = simulate(scenario, tmp_path / "simulated", *site)
    as_apart = simulate(scenario, tmp_path / "apart", *site, *apart)
    assert ran.exit_code == simulated.exit_code == as_apart.exit_code == 0, ran.stderr
    models = {(one.directory.path / "model.safetensors").read_bytes() for one in (ran, simulated, as_apart)}
    assert len(models) == 1
    assert told(ran, "p03") == told(simulated, "p03") == told(as_apart, "p03")


TORCH = """
import torch
import securefl
from torch.utils.data import DataLoader, TensorDataset

def ward(name):
    torch.set_num_threads(1)
    own = torch.Generator().manual_seed(int(name[1:]))
    x = torch.randn(40, 6, generator=own)
    data = TensorDataset(x, (x[:, 0] > 0).long())
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2)
        )
    return securefl.TorchSite(
        model,
        DataLoader(data, batch_size=8, shuffle=True),
        torch.nn.functional.cross_entropy,
        lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
        buffers="average",
        keep_optimiser=True,
    )
"""


@pytest.mark.parametrize("apart", [(), ("--site-python", sys.executable)], ids=["here", "apart"])
def test_a_loop_of_torch_has_the_bits_of_its_simulation(apart: tuple[str, ...], tmp_path: Path) -> None:
    """Orders of samples, dropout, momentum and running statistics that are kept from round to round."""
    scenario = made(tmp_path, 5)
    (tmp_path / "ward_of_torch.py").write_text(TORCH)
    shapes: dict[str, Any] = {
        "0.weight": (8, 6),
        "0.bias": 8,
        "1.weight": 8,
        "1.bias": 8,
        "1.running_mean": 8,
    }
    shapes |= {"1.running_var": 8, "3.weight": (2, 8), "3.bias": 2}
    rng = np.random.default_rng(1)
    first = {name: rng.uniform(0.1, 0.9, shape) for name, shape in shapes.items()}
    write_tensors(tmp_path / "torch.safetensors", first)
    fields = ("--set", f"model.file={tmp_path / 'torch.safetensors'}")
    site = ("--site", "ward_of_torch:ward", "--insecure-seeded-entropy", "--seed", "4", *fields)
    ran = run_program(scenario, tmp_path / "run", *site, *apart, *PATIENT)
    simulated = simulate(scenario, tmp_path / "simulated", *site)
    assert ran.exit_code == simulated.exit_code == 0, ran.stderr
    models = [(one.directory.path / "model.safetensors").read_bytes() for one in (ran, simulated)]
    assert models[0] == models[1]
    assert told(ran, "p03") == told(simulated, "p03")


def test_python_takes_the_same_class_for_a_simulation_and_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = made(tmp_path, 3)
    monkeypatch.syspath_prepend(tmp_path)
    good = importlib.import_module("ward_of_runs").Good
    try:
        simulated = securefl.simulate(scenario, site=good, exact=True, out=tmp_path / "simulated")
        ran = securefl.run(scenario, site=good, broker="embedded", out=tmp_path / "ran")
    finally:
        sys.modules.pop("ward_of_runs")
    for name, array in simulated.arrays().items():
        np.testing.assert_array_equal(ran.arrays()[name], array)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--site", "ward_of_runs:shorter"),
            "p02: parameters() returned a.w of shape (3, 2), expected (2, 3)",
        ),
        (("--site", "ward_of_runs:Nix"), "--site ward_of_runs:Nix: has no Nix"),
        ((), '--site: model.type = "weights" is trained by a site of your own, and none is named'),
        (("--site", "ward_of_runs:Good", "--set", "model.file=gone"), "model.file: gone cannot be read"),
        (("--site", "ward_of_runs:Good", "--set", f"model.sha256={'0' * 64}"), "model.sha256: "),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(
    arguments: tuple[str, ...], said: str, scenario: Path, tmp_path: Path
) -> None:
    ended = simulate_refused(scenario, tmp_path / "run", *arguments)
    assert said in ended
    assert len(ended.strip().splitlines()) == 1


def simulate_refused(scenario: Path, out: Path, *arguments: str) -> str:
    done = call("simulate", scenario, "--out", out, *arguments)
    assert done.exit_code == 2
    assert not out.exists()
    return str(done.stderr)


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ("ward_of_nobody:Ward", r"(p\d\d): ward_of_nobody\.py:3 in __init__: OSError: no patients of \1"),
        ("ward_of_runs:shorter", r"p02: parameters\(\) returned a\.w of shape \(3, 2\), expected \(2, 3\) "),
    ],
)
def test_nobody_waits_for_a_site_that_cannot_take_part(
    site: str, said: str, scenario: Path, tmp_path: Path
) -> None:
    """The server would wait for the whole of ``deadlines.join``, and then begin without it."""
    (tmp_path / "ward_of_nobody.py").write_text(
        "class Ward:\n    def __init__(self, name):\n        raise OSError(f'no patients of {name}')\n"
    )
    ended = call(
        "run", scenario, "--site", site, "--broker", "embedded", "--out", tmp_path / "out",
        "--set", "deadlines.join=3600",
    )  # fmt: skip
    assert ended.exit_code == 2
    (line,) = (line for line in ended.stderr.splitlines() if line.startswith("refused "))
    assert re.match(rf"refused --site {site}: {said}", line)
