"""Metrics of two runs of the same keys: each party keeps its atom in its account, and the runs share them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from securefl.training.models.tensors import write_tensors
from tests.live.deployed import site
from tests.live.federated import LIMIT
from tests.live.forked import fork
from tests.unit.cli.programs import call

pytestmark = pytest.mark.live

WARD = """
import numpy as np

class Ward:
    samples = 20
    def __init__(self, name):
        self.name = name
    def parameters(self):
        return {"w": np.zeros(4, np.float32)}
    def fit(self, parameters, context):
        return {"w": parameters["w"] + np.float32(.1)}, 20, {}
    def evaluate(self, parameters, context):
        return 20, {"loss": .5}
"""
SCENARIO = """
name = "wards"
parties = 8
[model]
type = "weights"
file = "FILE"
[clustering]
size = 4
atoms = 2
[[evaluation.metrics]]
name = "loss"
kind = "mean"
[stop]
rounds = 2
"""


def test_two_runs_of_the_same_keys_have_the_same_atoms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ward_atoms.py").write_text(WARD)
    write_tensors(tmp_path / "w.safetensors", {"w": np.zeros(4, np.float32)})
    monkeypatch.chdir(tmp_path)
    with site(tmp_path, "embedded", parties=8) as place:
        (tmp_path / "wards.toml").write_text(SCENARIO.replace("FILE", str(tmp_path / "w.safetensors")))
        seeds, kept = [], []
        for run in ("first", "second"):
            common = ("--roster", str(tmp_path / "roster.toml"), "--broker", str(place.broker), "--run", run)
            programs = {}
            for name in ("server", *place.parties):
                kind = (
                    ["server"] if name == "server" else ["party", "--name", name, "--site", "ward_atoms:Ward"]
                )
                arguments = [
                    *kind,
                    str(tmp_path / "wards.toml"),
                    "--key",
                    str(tmp_path / f"{name}.key"),
                    *common,
                ]
                out = tmp_path / f"{run}-{name}"
                programs[name] = fork(tmp_path / f"said-{run}-{name}", *arguments, "--out", str(out))
            for name, program in programs.items():
                code, said, complaint = program.wait(LIMIT)
                assert (code, complaint) == (0, ""), (name, said)
            rows = [
                json.loads(line)
                for line in (tmp_path / f"{run}-server/metrics.jsonl").read_text().splitlines()
            ]
            assert [row["metrics"]["loss"]["pooled"] for row in rows] == [pytest.approx(0.5, abs=1e-6)] * 2
            entries = (tmp_path / f"{run}-server/transcripts/server.jsonl").read_text().splitlines()
            drawn = [one for one in map(json.loads, entries) if one.get("kind") == "clusters_drawn"]
            seeds.append({one["atom_seed"] for one in drawn})
            accounts = {name: (tmp_path / f"{name}.account").read_text() for name in place.parties}
            kept.append({name: text.count('"kind":"atoms"') for name, text in accounts.items()})
        first, second = (next(iter(some)) for some in seeds)
        assert [len(some) for some in seeds] == [1, 1]
        assert (len(first), len(second)) == (64, 64 + 4 * 8), (
            "the second run has the labels of the first one's atoms"
        )
        assert kept == [dict.fromkeys(place.parties, 1)] * 2
        shown = call("account", "--key", tmp_path / "p00.key").stdout
        assert "metrics: without noise only in sums together with" in shown
        audited = call("audit", tmp_path / "second-server")
        assert audited.exit_code == 0, audited.output
