"""Metrics in the sums of whole runs: a server without data stops by them; sites end with the best model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from securefl.training.models.tensors import write_tensors
from tests.live.federated import BROKERS, PATIENT, run_program, simulate
from tests.simulation.test_metrics import TEXT

pytestmark = pytest.mark.live

SITE = """
import numpy as np
import securefl

class Ward:
    def __init__(self, name):
        rng = np.random.default_rng(int(name[1:]))
        self.samples = 20 + int(name[1:])
        self.labels = rng.integers(0, 2, self.samples)
        self.x = rng.normal(self.labels, 0.7)
    def parameters(self):
        return {"w": np.zeros(2, np.float32)}
    def fit(self, parameters, context):
        rng = np.random.default_rng(context.seed)
        return {"w": parameters["w"] + np.float32(rng.uniform(0.2, 0.3))}, self.samples, {}
    def evaluate(self, parameters, context):
        w = parameters["w"]
        scores = 1 / (1 + np.exp(-(self.x * w[0] - w[1] / 2)))
        loss = -np.log(np.where(self.labels == 1, scores, 1 - scores)).mean()
        return self.samples, {
            "loss": loss + max(0.0, float(w[0]) - 1.1),
            "scores": securefl.score_histogram(scores, self.labels, bins=50),
            "table": securefl.confusion(self.labels, scores > 0.5, 2),
        }
"""


def made(folder: Path) -> tuple[Path, tuple[str, ...]]:
    (folder / "ward_with_metrics.py").write_text(SITE)
    write_tensors(folder / "w.safetensors", {"w": np.zeros(2, np.float32)})
    file = folder / "metrics.toml"
    file.write_text(TEXT)
    fields = (
        f"model.file='{folder / 'w.safetensors'}'",
        "stop.metric='loss'",
        "stop.patience=2",
        "stop.rounds=20",
        "clustering.reclusterings=1",
        "expect=[{metric='evaluation',of='loss',at_most=0.6}]",
    )
    return file, tuple(part for field in fields for part in ("--set", field))


def found(row: Any) -> dict[str, float]:
    return {name: one["value"] for name, one in row["metrics"].items()}


@pytest.mark.parametrize("broker", BROKERS)
def test_a_run_stops_by_what_its_sites_say_and_each_has_the_best_model(broker: str, tmp_path: Path) -> None:
    scenario, fields = made(tmp_path)
    arguments = ("--site", "ward_with_metrics:Ward", "--insecure-seeded-entropy", "--seed", "4", *fields)
    ran = run_program(scenario, tmp_path / "run", *arguments, *PATIENT, "--broker", broker)
    simulated = simulate(scenario, tmp_path / "simulated", *arguments, *PATIENT)
    assert ran.exit_code == simulated.exit_code == 0, ran.stderr
    assert [row["metrics"] for row in ran.rows] == [row["metrics"] for row in simulated.rows]
    values = [found(row)["loss"] for row in ran.rows]
    assert len(values) == int(np.argmin(values)) + 3 < 20
    best = (simulated.directory.path / "best.safetensors").read_bytes()
    assert (ran.directory.path / "best.safetensors").read_bytes() == best
    for number in range(12):
        assert (ran.directory.path / f"p{number:02d}.model.safetensors").read_bytes() == best
    assert "no better loss in 2 rounds" in ran.stdout


def test_with_an_active_server_verifiers_repeat_sums_with_metrics(tmp_path: Path) -> None:
    scenario, fields = made(tmp_path)
    fields += ("--set", "clustering.atoms=3", "--set", "clustering.size=6")
    active = ("server='active'", "colluders_per_cluster=1", "colluders=1", "threshold=4", "min_survivors=4")
    fields += tuple(part for one in active for part in ("--set", f"secure_sum.{one}"))
    fields += ("--set", "behaviours=[{kind='drop',phase='after-shares',parties=['p05'],rounds=[1]}]")
    ran = run_program(scenario, tmp_path / "run", "--site", "ward_with_metrics:Ward", *fields, *PATIENT)
    assert ran.exit_code == 0, ran.stderr
    best = load_file(ran.directory.path / "best.safetensors")["w"]
    assert abs(float(best[0]) - 1.1) < 0.3
    kept = [ran.directory.path / f"p{number:02d}.model.safetensors" for number in range(12)]
    assert sum(one.exists() for one in kept) >= 10, "whoever was away in the best round has not worked on it"
    for one in kept:
        if one.exists():
            assert load_file(one)["w"].tolist() == best.tolist()
