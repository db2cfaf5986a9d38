"""Nets of simulations that train with torch, whose last bits depend on processor and version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import securefl
from securefl.base.errors import SecureflError
from securefl.scenario.load import parse_scenario
from tests.nets.sites import METRICS, STATISTICS, scenario_of, simulated

Lines = list[str]
DIGITS = """
name = "digits"
parties = 6
[data]
set = "digits"
train_limit = 120
test_limit = 50
[model]
type = "softmax"
[training]
device = "cpu"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 2
"""
RECORDS = ("privacy={unit='record', multiplier=1.5, delta=0.01, records=20}", "encoding={scale_bits=13}")
METHODS: Mapping[str, tuple[str, ...]] = {
    "sgd": (),
    "fedprox": ("training.method={type='fedprox', mu=0.1}",),
    "scaffold": ("training.method={type='scaffold'}",),
    "dp-sgd": (
        *RECORDS,
        "training.dp_sgd={momentum=0.1, carry='global'}",
        "training.batch_size=8",
        "weighting.mode='ignore'",
    ),
    "fltrust": ("aggregation.rule={type='fltrust'}", "data.server_fraction=0.1"),
    "zeno": ("aggregation.rule={type='zeno++'}", "data.server_fraction=0.1"),
    "trust": ("aggregation.rule={type='inner-product', gamma=0.5}", "data.server_fraction=0.1"),
    "attacked": ("behaviours=[{kind='scale', factor=-10, count=1}]", "aggregation.rule={type='median'}"),
    "open groups": ("groups={count=2, mode='open'}", "weighting.mode='ignore'"),
    "hidden groups": (
        "parties=8",
        "groups={count=2, mode='hidden'}",
        "clustering={size=4, atoms=4}",
        "secure_sum={threshold=4, min_survivors=4}",
        "weighting.mode='ignore'",
    ),
}


class Linear(securefl.TorchSite):
    """A line through other points at each site."""

    def __init__(self, name: str) -> None:
        shift = int(name[1:]) / 8
        x = torch.arange(24.0).reshape(12, 2) / 8 + shift
        self.x, self.y = x, x.sum(dim=1, keepdim=True) * 3
        with torch.random.fork_rng():
            torch.manual_seed(1)
            model = nn.Linear(2, 1)
        data: Any = DataLoader(TensorDataset(self.x, self.y), batch_size=4, shuffle=True)
        super().__init__(
            model, data, nn.MSELoss(), lambda weights: torch.optim.SGD(weights, lr=0.01), epochs=2
        )

    def evaluate(self, parameters: Any, context: securefl.RoundContext) -> Any:
        loss = min(8.0, max(float(abs(value).max()) for value in parameters.values()))
        return len(self.x), {"loss": loss, "table": [[1, 2], [3, 6]]}

    def columns(self) -> dict[str, Any]:
        return {"dose": self.y[:, 0].numpy(), "outcome": torch.arange(len(self.x)).numpy() % 2}


def _method(settings: tuple[str, ...]) -> Lines:
    try:
        return simulated(parse_scenario(DIGITS, settings), None)
    except SecureflError as error:
        return [f"scenario Refused {error}"]


TORCH_NETS: Mapping[str, Callable[[], Lines]] = {
    **{f"torch, {name}": partial(_method, settings) for name, settings in METHODS.items()},
    "torch, site": lambda: simulated(scenario_of(), Linear),
    "torch, site with metrics": lambda: simulated(scenario_of(*METRICS), Linear),
    "torch, site with statistics": lambda: simulated(scenario_of(*STATISTICS), Linear, statistics=True),
}
