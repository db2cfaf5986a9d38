"""Sites that fail on one machine: whoever looks at the console is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import securefl
from tests.unit.cli.programs import call

SITES = """
import numpy as np

class Ward:
    samples = 4
    def __init__(self, name):
        self.name = name
    def parameters(self):
        return {"w": np.zeros(3, np.float32)}
    def fit(self, parameters, context):
        shape = 4 if self.name == "p01" else 3
        return {"w": np.ones(shape)}, 4, {}
    def evaluate(self, parameters, context):
        return 4, {"loss": 5.0}

class Still(Ward):
    def fit(self, parameters, context):
        return parameters, 4, {}
"""
SCENARIO = """
name = "wards"
parties = 4
[model]
type = "weights"
file = "{file}"
[clustering]
size = 4
[secure_sum]
threshold = 3
min_survivors = 3
[evaluation]
samples = 4
repeats = "accept"
[[evaluation.metrics]]
name = "loss"
kind = "mean"
upper = 2
[stop]
rounds = 2
"""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "wards_that_fail.py").write_text(SITES)
    monkeypatch.syspath_prepend(tmp_path)
    securefl.save_weights(tmp_path / "first.safetensors", {"w": np.zeros(3, np.float32)})
    path = tmp_path / "wards.toml"
    path.write_text(SCENARIO.format(file=tmp_path / "first.safetensors"))
    return path


def test_a_simulation_says_who_sent_zeros_and_why(scenario: Path, tmp_path: Path) -> None:
    done = call("simulate", scenario, "--site", "wards_that_fail:Ward", "--out", tmp_path / "out")
    assert done.exit_code == 0
    reason = "training failed, so zeros were sent: fit returned w of shape (4,), expected (3,)"
    said = " ".join((done.stdout + done.stderr).split())
    assert f"p01: round 0: {reason}" in said
    assert f"p01: round 1: {reason}" in said
    assert "p01 sent zeros 2 times; p01.site.jsonl says why" in said
    assert "p00 sent" not in said


def test_a_trial_says_what_is_cut_and_that_nothing_was_learned(scenario: Path) -> None:
    done = call("site", "check", scenario, "wards_that_fail:Still")
    said = " ".join(done.stdout.split())
    assert "1 arrays, 3 parameters: w" in said
    assert "the update is zero: check that the loss depends on the shared parameters" in said
    assert "the update is zero" not in call("site", "check", scenario, "wards_that_fail:Ward").stdout


def test_a_trial_names_a_training_that_holds_the_interpreter_lock(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wards_that_hold.py").write_text(
        SITES + "\nimport ctypes\nclass Holds(Ward):\n    def fit(self, parameters, context):\n"
        "        ctypes.PyDLL(None).usleep(1_600_000)\n        return parameters, 4, {}\n"
    )
    monkeypatch.setattr("securefl.cli.site.NOTED_SECONDS", 0.8)
    held = call("site", "check", scenario, "wards_that_hold:Holds").stdout
    assert "the training blocks messages" in held
    assert "--site-python" in held
    assert "interpreter lock" not in call("site", "check", scenario, "wards_that_fail:Still").stdout


def test_a_simulation_prints_why_no_metrics_count_once(scenario: Path, tmp_path: Path) -> None:
    """The scenario declares a metric by another name than the site returns."""
    scenario.write_text(scenario.read_text().replace('"loss"', '"lost"'))
    done = call("simulate", scenario, "--site", "wards_that_fail:Still", "--out", tmp_path / "out")
    assert done.exit_code == 0
    lines = " ".join((done.stdout + done.stderr).split())
    reason = "no metrics counted: evaluate gave no metric lost, which the scenario declares; it gave loss"
    assert lines.count(f"p00: round 0: {reason}") == 1
    assert f"round 1: {reason}" not in lines
    assert "no metrics of sites were used: the log of each site (NAME.site.jsonl) has the reason" in lines
