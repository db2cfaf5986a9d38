"""The file that a run writes is the model that sites measured (users/01): no variance below 0, no NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch.utils.data import DataLoader, TensorDataset

import securefl
from securefl.training.sites.site import Delta
from tests.cases.users.play import MSE, play, samples, scenario, sgd
from tests.live.federated import run_program

SCALE = 0.05


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))


def site(name: str, evaluate: Any = None) -> securefl.TorchSite:
    x, y = samples(32, 1 + int(name[1:]))
    rows = DataLoader(TensorDataset(x * SCALE, y), batch_size=8)
    return securefl.TorchSite(net(), rows, MSE, sgd(0.05), buffers="average", evaluate=evaluate)


@pytest.mark.parametrize("rounds", [6, 12])
@pytest.mark.parametrize(
    "optimiser",
    [
        "momentum = 0.9",
        'type = "adam"\nlearning_rate = 0.1',
        'type = "adam"\nlearning_rate = 0.3',
        'type = "yogi"\nlearning_rate = 0.3',
        'type = "adagrad"\nlearning_rate = 0.3',
    ],
)
def test_optimisers_leave_variances_above_zero(optimiser: str, rounds: int, tmp_path: Path) -> None:
    result = play(tmp_path, site, rounds, f"[server_optimiser]\n{optimiser}\n")
    model = net()
    model.load_state_dict(result.state_dict(), strict=False)
    model.eval()
    assert result.summary.exit_code == 0
    assert result.arrays()["1.running_var"].min() > 0
    assert model(samples()[0] * SCALE).isfinite().all()


def test_buffers_are_averaged_whatever_the_optimiser(tmp_path: Path) -> None:
    """After one round they are those of FedAvg, and weights are not."""
    arrays = {
        name: play(tmp_path, site, 1, f"[server_optimiser]\n{table}\n", name).arrays()
        for name, table in (("plain", ""), ("adam", 'type = "adam"\nlearning_rate = 0.3'))
    }
    for name, array in arrays["plain"].items():
        assert np.array_equal(array, arrays["adam"][name]) == ("running" in name), name


class Falling:
    """Its variance falls by 3, as a robust rule or noise may lead it, and then rises by 1 in a round."""

    samples = 10

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[float] = []

    def parameters(self) -> dict[str, Any]:
        return {"a.running_var": np.ones(2, np.float32), "a.weight": np.zeros(2, np.float32)}

    def fit(self, parameters: Any, context: Any) -> Any:
        self.seen.append(float(parameters["a.running_var"].min()))
        moved = 1.0 if context.number else -3.0
        return Delta({"a.running_var": np.full(2, moved), "a.weight": -np.ones(2)}), 10, {}


def test_the_file_is_what_sites_get(tmp_path: Path) -> None:
    sites = {name: Falling(name) for name in ("p00", "p01", "p02")}
    toml = scenario(tmp_path, sites["p00"].parameters(), 3)
    result = securefl.simulate(toml, site=_Named(sites), out=tmp_path / "out")
    arrays = load_file(tmp_path / "out" / "model.safetensors")
    assert sites["p01"].seen == [1.0, 0.0, 1.0]
    assert arrays["a.running_var"].tolist() == [2.0, 2.0]
    assert arrays["a.weight"].tolist() == [-3.0, -3.0]
    assert result.summary.exit_code == 0


class _Named:
    """A maker with a name, as runs ask for."""

    def __init__(self, sites: dict[str, Falling]) -> None:
        self.sites = sites

    def __call__(self, name: str) -> Falling:
        return self.sites[name]


SITES = """
import numpy as np

class Site:
    samples = 10
    def __init__(self, name):
        self.step = 1 + int(name[1:])
    def parameters(self):
        return {"a.running_var": np.ones(2, np.float32), "b": np.zeros(3, np.float32)}
    def fit(self, parameters, context):
        return {"a.running_var": parameters["a.running_var"] - 0.3, "b": parameters["b"] + self.step}, 10, {}
"""
VERIFIED = """
[server_optimiser]
type = "adam"
learning_rate = 0.3
[encoding]
range = 8
"""
PASSIVE = "threshold = 2\nmin_survivors = 2"
ACTIVE = """
threshold = 3
min_survivors = 3
colluders = 1
colluders_per_cluster = 1
server = "active"
verify = "all"
"""


@pytest.mark.live
def test_verifiers_and_audits_repeat_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verified steps of a run are those of a simulation, and an audit finds nothing against them."""
    (tmp_path / "falling_sites.py").write_text(SITES)
    monkeypatch.chdir(tmp_path)
    first = {"a.running_var": np.ones(2, np.float32), "b": np.zeros(3, np.float32)}
    toml = scenario(tmp_path, first, 4, VERIFIED)
    toml.write_text(toml.read_text().replace(PASSIVE, ACTIVE).replace(" = 3\n", " = 4\n"))
    ended = run_program(toml, tmp_path / "run", "--site", "falling_sites:Site")
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    assert [row["survivors"] for row in ended.rows] == [["p00", "p01", "p02", "p03"]] * 4
    again = securefl.simulate(toml, site="falling_sites:Site", out=tmp_path / "again")
    arrays = load_file(tmp_path / "run" / "model.safetensors")
    for name, array in again.arrays().items():
        np.testing.assert_allclose(arrays[name], array, atol=1e-3)
    assert arrays["a.running_var"].tolist() == [0.0, 0.0]
    report = securefl.audit(tmp_path / "run")
    assert report.verdict.startswith("no breach"), [f.claim for f in report.findings]
    assert any("follow from the opened sums, bit for bit" in finding.claim for finding in report.findings)
