"""What header and summary say of metrics of the same samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import securefl
from securefl.protocol.round.server.features.measuring import on_metrics
from securefl.scenario.load import parse_scenario
from securefl.training.models.tensors import write_tensors

TEXT = """
name = "metrics"
parties = 8
[model]
type = "weights"
file = "FILE"
[clustering]
size = 4
atoms = 2
[stop]
rounds = 1
[[evaluation.metrics]]
name = "loss"
kind = "mean"
"""
NOISE = ("privacy={unit='party',epsilon=8}", "encoding.clip=1", "encoding.range=1")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ((), "a change at a single site shows between two sums of its atom"),
        (("evaluation.repeats='accept'",), "METRICS MAY REVEAL SINGLE SITES"),
        (NOISE, "metrics have noise of their own, 3 times that of updates"),
        ((*NOISE, "evaluation.repeats='accept'"), "metrics have noise of their own"),
    ],
)
def test_one_line_says_what_follows_of_single_sites(overrides: tuple[str, ...], said: str) -> None:
    (line,) = on_metrics(parse_scenario(TEXT, overrides))
    assert said in line.whole
    assert line.line == "privacy"


def test_nothing_is_said_without_metrics() -> None:
    assert list(on_metrics(parse_scenario(TEXT, ("evaluation={}",)))) == []


class Site:
    """Two samples of loss one half."""

    samples = 2

    def __init__(self, _name: str) -> None:
        pass

    def parameters(self) -> Any:
        return {"w": np.zeros(2, np.float32)}

    def fit(self, parameters: Any, _context: Any) -> Any:
        return {"w": parameters["w"] + np.float32(0.25)}, 2, {}

    def evaluate(self, _parameters: Any, _context: Any) -> Any:
        return 2, {"loss": 0.5}


def test_header_and_summary_say_it(tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    write_tensors(weights, Site("p00").parameters())
    (tmp_path / "metrics.toml").write_text(TEXT.replace("FILE", str(weights)))
    scenario = securefl.load(tmp_path / "metrics.toml", ("evaluation.repeats='accept'",))
    assert "METRICS MAY REVEAL SINGLE SITES" in securefl.explain(scenario)
    result = securefl.simulate(scenario, site=Site, out=tmp_path / "run")
    view: Any = result.summary.to_json()["server_view"]
    assert "METRICS MAY REVEAL SINGLE SITES" in view["metrics"]
