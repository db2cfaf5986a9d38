"""Twelve parties in task groups over MQTT: the same bits as the simulation, model by model."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load
from securefl.lab.audit.run import audit
from securefl.training.models.checkpoint import load_model
from tests.live.federated import run, simulate
from tests.live.scenarios import behaviour, write_scenario

pytestmark = pytest.mark.live

SEEDED = ("--insecure-seeded-entropy", "--seed", "7")
GROUPS = ("groups.count=2", "groups.tasks=rotations", "weighting.mode=ignore", "groups.warmup=1")
MODES = {
    "open": (2, ()),
    "hidden": (
        4,
        (
            "groups.mode=hidden",
            "clustering.atoms=4",
            "groups.screen=2",
            "secure_sum.threshold=4",
            "secure_sum.min_survivors=4",
        ),
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_same_bits_as_the_simulation(mode: str, tmp_path: Path) -> None:
    size, more = MODES[mode]
    liar = behaviour("scale", "p01", factor=-10)
    scenario = write_scenario(tmp_path, liar, parties=12, rounds=3, size=size)
    overrides = [part for setting in (*GROUPS, *more) for part in ("--set", setting)]
    real = run(scenario, tmp_path / "run", *SEEDED, *overrides)
    twin = simulate(scenario, tmp_path / "simulation", *SEEDED, *overrides)
    assert (real.exit_code, twin.exit_code) == (0, 0), real.stderr
    assert real.summary["outcome"] == twin.summary["outcome"]
    for name in ("model", "model-1"):
        one, two = (load_model(ended.directory.model_file.with_stem(name)) for ended in (real, twin))
        assert all(one[key].tobytes() == two[key].tobytes() for key in one.keys() | two.keys())
    assert len(real.rows) == len(twin.rows) == 3
    for row, simulated in zip(real.rows, twin.rows, strict=True):
        for field in ("accuracy", "loss", "update_norm", "survivors", "clusters"):
            assert row[field] == simulated[field], (row["round"], field)
    assert real.summary["server_view"]["single_updates"] == []
    assert real.summary["server_view"]["sums_by_size"] == twin.summary["server_view"]["sums_by_size"]
    report = audit(load(real.directory.path))
    assert max(f.severity for c in report.chapters for f in c.findings) < Severity.WARNING
