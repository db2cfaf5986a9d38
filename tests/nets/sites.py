"""Nets of simulations with sites: one's own in numpy, whose updates are eighths.

Those with torch (``TORCH_SITES``) have last bits that depend on the processor: ``tools/unchanged.py`` alone
compares them, on the machine that wrote them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import securefl
from securefl.base.errors import SecureflError
from securefl.scenario import statistics_round
from securefl.scenario.load import parse_scenario
from securefl.training.models.tensors import write_tensors
from tests.nets.digests import Digester

Lines = list[str]
_ROUNDED = Digester(9)
_OF_TIME = frozenset({"seconds", "securefl", "run", "traffic", "traceback"})
"""Fields that change from run to run, from version to version, or with the lines of the code."""


class Site:
    """Returns another model in each round, and metrics of eighths."""

    def __init__(self, name: str) -> None:
        self.number = int(name[1:])
        self.samples = 8 + 2 * self.number

    def parameters(self) -> dict[str, Any]:
        return {"w": np.zeros(3, np.float32), "b": np.zeros(1, np.float32)}

    def fit(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
        step = np.float32(((self.number * 5 + context.number * 3) % 7 - 2) / 8)
        metrics = {"loss": 0.5}
        return {name: value + step for name, value in parameters.items()}, self.samples, metrics

    def evaluate(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
        right = (self.number + context.number) % 3
        table = np.array([[right, 1], [2, 5]])
        return self.samples, {"loss": abs(float(parameters["w"][0]) - 1.0), "table": table}

    def columns(self) -> dict[str, Any]:
        dose = (np.arange(self.samples) % 5) / 2.0
        dose[self.number % self.samples] = np.nan
        return {"dose": dose, "outcome": np.arange(self.samples) % 2}


class Poisoned(Site):
    """The site of p01 returns numbers that are not finite, and that of p02 raises."""

    def fit(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
        if self.number == 2:
            raise ValueError("no data today")
        after, samples, metrics = super().fit(parameters, context)
        return (after if self.number != 1 else {"w": after["w"] * np.nan, "b": after["b"]}), samples, metrics


TEXT = """
name = "sites"
parties = 8
[model]
type = "weights"
[clustering]
size = 4
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 4
"""
METRICS = (
    "clustering.atoms=2",
    "evaluation.samples=32",
    'evaluation.metrics=[{name="loss", kind="mean", upper=8, better="lower"},'
    ' {name="table", kind="confusion"}]',
)
NOISE = ("privacy={unit='party', multiplier=0.5, delta=0.05}", "encoding={clip=1, scale_bits=8}")
STATISTICS = (
    "clustering.atoms=2",
    "statistics.features=[{name='dose', lower=-4, upper=8}]",
    "statistics.labels={name='outcome', classes=2}",
)
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "metrics": METRICS,
    "metric stops": (*METRICS, "stop.metric='loss'", "stop.patience=1", "stop.min_gain=0.25"),
    "median": (*METRICS, "aggregation.rule={type='median'}"),
    "adam": ("server_optimiser={type='adam', learning_rate=0.5}",),
    "active": ("secure_sum.server='active'", "secure_sum.threshold=3", "secure_sum.min_survivors=3"),
    "noise": NOISE,
    "budget": (*NOISE, "privacy.releases=2", "privacy.budget=9"),
    "dropout": ("behaviours=[{kind='drop', phase='after-keys', count=2}]",),
    "hidden groups": (
        "groups={count=2, mode='hidden'}",
        "clustering.atoms=4",
        "secure_sum={threshold=4, min_survivors=4}",
        "weighting.mode='ignore'",
    ),
    "own data": ("aggregation.rule={type='fltrust'}", "data.server_fraction=0.1"),
}


def simulated(scenario: securefl.Scenario, site: Any, statistics: bool = False) -> Lines:
    """Simulate, and return a line for each row of the run, its summary and its files."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        # The path of the first model is in the digest of the configuration, which seeds follow from.
        out = Path("run")
        try:
            wanted = statistics_round(scenario) if statistics else scenario
            if wanted.model.name == "weights" and not statistics:
                write_tensors(Path("first.safetensors"), site("p00").parameters())
                wanted = securefl.with_overrides(wanted, ("model.file='first.safetensors'",))
            securefl.simulate(wanted, site=site, out=out, seed=4, seeded=True, exact=True, device="cpu")
        except SecureflError as error:
            return [f"scenario Refused {str(error).replace(folder, '')}"]
        return list(_lines(out, folder))


def _lines(out: Path, folder: str) -> Iterator[str]:
    for row in (out / "metrics.jsonl").read_text().splitlines():
        yield f"server Row {_pairs(json.loads(row))}"
    yield f"server Summary {_pairs(json.loads((out / 'summary.json').read_text()))}"
    for path in sorted(out.iterdir()):
        if path.suffix == ".safetensors":
            yield f"server File {path.name} digest={_ROUNDED.digest(path.read_bytes(), 64)}"
        elif path.name.endswith((".site.jsonl", "statistics.json")):
            text = path.read_text().replace(folder, "")
            rows = [json.loads(line) for line in (text.splitlines() if path.suffix == ".jsonl" else [text])]
            yield f"server File {path.name} digest={_ROUNDED.digest([_timeless(one) for one in rows])}"


def _pairs(row: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_ROUNDED.text(value)}" for name, value in _timeless(row).items())


def _timeless(value: Any) -> Any:
    """Return ``value`` without what no seed decides."""
    if isinstance(value, dict):
        return {name: _timeless(one) for name, one in value.items() if name not in _OF_TIME}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


def scenario_of(*settings: str) -> securefl.Scenario:
    """Return the scenario of the nets with further settings."""
    return parse_scenario(TEXT, settings)


def _refusable(settings: tuple[str, ...], site: Any, statistics: bool = False) -> Lines:
    try:
        return simulated(scenario_of(*settings), site, statistics)
    except SecureflError as error:
        return [f"scenario Refused {error}"]


def _nets() -> Iterator[tuple[str, Callable[[], Lines]]]:
    for name, settings in SETTINGS.items():
        yield f"sites, {name}", partial(_refusable, settings, Site)
    yield "sites, poisoned", partial(_refusable, METRICS, Poisoned)
    yield "sites, statistics", partial(_refusable, STATISTICS, Site, statistics=True)


SITES: Mapping[str, Callable[[], Lines]] = dict(_nets())
