"""The example of own heads: heads stay at the sites, across rounds and restarts, and help on skewed data."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import securefl
from tests.live.test_examples import run
from tests.unit.cli.programs import call

pytestmark = pytest.mark.live

EXAMPLE = Path(__file__).parents[2] / "examples" / "personal"
PAGE = Path(__file__).parents[2] / "docs" / "sites.md"
HEAD = {"head.bias", "head.weight"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "personal"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(copy)
    monkeypatch.syspath_prepend(copy)
    monkeypatch.setenv("LOCAL", str(copy))
    monkeypatch.delitem(sys.modules, "clinic", raising=False)
    return copy


def heads(folder: Path) -> dict[str, np.ndarray]:
    return {path.name[:3]: load_file(path)["weight"] for path in sorted(folder.glob("p*.head.safetensors"))}


def test_only_the_body_travels_and_heads_outlive_the_process(folder: Path) -> None:
    written = call("site", "weights", "clinic:Clinic", "--out", "initial.safetensors")
    assert written.exit_code == 0, written.output
    done = call("simulate", "federation.toml", "--site", "clinic:Clinic", "--out", "run")
    assert done.exit_code == 0, done.output
    assert load_file("run/model.safetensors").keys() == {"body.0.bias", "body.0.weight"}
    kept = heads(folder)
    assert len(kept) == 10
    assert not np.allclose(kept["p00"], kept["p01"], atol=0.1)
    from clinic import Clinic  # noqa: PLC0415 - of the copy

    site = Clinic("p03")
    assert HEAD.isdisjoint(site.parameters())
    assert (site.net.head.weight.detach().numpy() == kept["p03"]).all()
    # A process that starts now has the accuracy of the run; one without its head has not.
    validate = ("site", "validate", "federation.toml", "clinic:Clinic", "--model", "run/model.safetensors")
    found = []
    for _ in range(2):
        assert call(*validate, "--party", "p03", "--out", "p03.json").exit_code == 0
        found.append(json.loads(Path("p03.json").read_text())["metrics"]["kept.accuracy"]["value"])
        (folder / "p03.head.safetensors").unlink(missing_ok=True)
    assert found[0] > 0.75
    assert found[1] < found[0] - 0.3


def test_a_second_run_begins_with_the_heads_of_the_first(folder: Path) -> None:
    assert call("site", "weights", "clinic:Clinic", "--out", "initial.safetensors").exit_code == 0
    accuracies = []
    for at, first in enumerate(("initial.safetensors", "run-0/model.safetensors")):
        changes = {"model.file": first, "stop.rounds": 5, "expect": []}
        scenario = securefl.load("federation.toml", changes)
        result = securefl.simulate(scenario, site="clinic:Clinic", out=f"run-{at}", seed=1)
        accuracies.append(result.rounds[0].metrics[0].value)
    # In its first round, the second run evaluates the model of the first with the kept heads.
    assert accuracies[0] < 0.3
    assert accuracies[1] > 0.6


def test_the_numbers_of_the_page(folder: Path) -> None:
    """Five seeds: printed means, differences and standard errors are those of the page, within a point."""
    printed = run(folder / "compare.py", folder)
    text = PAGE.read_text(encoding="utf-8")
    row = re.search(r"\| accuracy, % \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", text)
    assert row is not None
    means = re.search(r"mean: own heads ([\d.]+) %, one model ([\d.]+) %, alone ([\d.]+) %", printed)
    assert means is not None, printed
    assert [*map(float, means.groups())] == pytest.approx([*map(float, row.groups())], abs=1.0)
    gains = re.findall(r"own heads - [a-z ]+: \+([\d.]+) points, standard error ([\d.]+)", printed)
    assert len(gains) == 2, printed
    for gain, error in gains:
        assert float(gain) > 3 * float(error), printed
