"""Values outside declared ranges: counted in the site's own log and in a simulation's summary."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import securefl
from securefl.runtime.report import print_summary
from securefl.scenario import statistics_round
from securefl.training.models.tensors import write_tensors

TEXT = """
name = "outside"
parties = 4
[model]
type = "weights"
file = "w.safetensors"
[clustering]
size = 4
[statistics]
features = [{ name = "age", lower = 0, upper = 100 }, { name = "dose", lower = 0, upper = 4 }]
[evaluation]
repeats = "accept"
metrics = [{ name = "loss", kind = "mean", upper = 2, better = "lower" }]
[stop]
rounds = 1
"""
AGES = {"p00": [10.0, 20.0, np.inf, 300.0], "p01": [np.nan, -5.0, 40.0, -np.inf]}


class Site:
    samples = 4

    def __init__(self, name: str) -> None:
        self.name = name

    def parameters(self) -> dict[str, Any]:
        return {"w": np.zeros(2, np.float32)}

    def fit(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
        return {"w": parameters["w"] + np.float32(0.25)}, 4, {}

    def evaluate(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
        return 4, {"loss": 5.0 if self.name == "p02" else 1.0}

    def columns(self) -> dict[str, Any]:
        return {"age": AGES.get(self.name, [30.0] * 4), "dose": [1.0, 2.0, 3.0, 4.0]}


SITE: Any = Site


@pytest.fixture
def scenario(tmp_path: Path) -> securefl.Scenario:
    write_tensors(tmp_path / "w.safetensors", Site("p00").parameters())
    (tmp_path / "s.toml").write_text(TEXT)
    return securefl.load(tmp_path / "s.toml", (f"model.file='{tmp_path / 'w.safetensors'}'",))


def logged(folder: Path, party: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{party}.site.jsonl").read_text().splitlines()]


def test_values_outside_are_in_the_summary_and_in_the_log_of_their_site(
    tmp_path: Path, scenario: securefl.Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    result = securefl.simulate(statistics_round(scenario), site=SITE, out=out, verbose=True)
    shown = capsys.readouterr().out
    assert "p00: column 'age': 2 above the range, 1 of them infinite, counted as its ends\n" in shown
    assert "p01: column 'age': 2 below the range, 1 of them infinite, counted as its ends; 1 missing" in shown
    assert "'dose'" not in shown
    counts = json.loads((out / "summary.json").read_text())["columns"]
    assert counts["age"] == {"below": 2, "above": 2, "infinite": 2, "missing": 1}
    assert counts["dose"] == dict.fromkeys(("below", "above", "infinite", "missing"), 0)
    own = next(entry["columns"] for entry in logged(out, "p01") if "columns" in entry)
    assert own["age"] == {"below": 2, "above": 0, "infinite": 1, "missing": 1}
    console = Console(file=io.StringIO(), width=300)
    print_summary(console, result.summary)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert (
        "age: 4 values outside the range counted as its ends (2 below, 2 above, 2 of them infinite)"
        in printed
    )
    assert "dose: " not in printed


def test_python_warns_of_values_outside(scenario: securefl.Scenario) -> None:
    with pytest.warns(UserWarning, match="^age: 4 values outside the range counted as its ends") as caught:
        found = securefl.statistics(scenario, site=SITE)
    assert len(caught) == 1
    assert found.features["age"].missing == pytest.approx(1)
    assert found.features["age"].count == pytest.approx(15)
    ages = np.clip(
        [value for own in (*AGES.values(), [30.0] * 8) for value in own if not np.isnan(value)], 0, 100
    )
    assert found.features["age"].mean == pytest.approx(ages.mean(), abs=found.features["age"].errors["mean"])


def test_a_metric_outside_its_range_is_noted_at_its_site(
    tmp_path: Path, scenario: securefl.Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    """A loss of 5 counted as one of 2, without a line."""
    securefl.simulate(scenario, site=SITE, out=tmp_path / "run", verbose=True)
    line = "loss 5 is outside 0 to 2 and counts as 2: declare a wider range"
    assert capsys.readouterr().out.count(f"p02: round 0: {line}") == 1
    assert logged(tmp_path / "run", "p02")[0]["notes"] == [line]
    assert "notes" not in logged(tmp_path / "run", "p00")[0]
