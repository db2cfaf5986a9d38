"""crate/crate PR#19782, solvcon/solvcon#1522, hail-is/hail PR#10132 (squares cancel).

Epoch seconds, and a concentration in mol/l.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import securefl
from tests.cases.users.common import scenario, verdict

rng = np.random.default_rng(0)
PARTIES = ("p00", "p01", "p02")
columns = {p: {"when": 1.7e9 + rng.normal(0, 50, 400), "dose": rng.normal(2e-7, 1e-8, 400)} for p in PARTIES}
DECLARED = """[statistics]
features = [{ name = "when", lower = 0, upper = 2e9 }, { name = "dose", lower = 0, upper = 1 }]
"""


class Site:
    samples = 400

    def __init__(self, name: str) -> None:
        self.own = columns[name]

    def parameters(self) -> Mapping[str, Any]:
        return {"w": np.zeros(1, np.float32)}

    def fit(
        self, parameters: Mapping[str, Any], context: object
    ) -> tuple[Mapping[str, Any], int, dict[str, Any]]:
        return parameters, self.samples, {}

    def columns(self) -> Mapping[str, Any]:
        return self.own


toml = scenario({"w": np.zeros(1, np.float32)}, 1, DECLARED)
found = securefl.statistics(toml, site=Site).features
true = {
    name: float(np.concatenate([one[name] for one in columns.values()]).std()) for name in ("when", "dose")
}
got = {name: found[name].std for name in true}
verdict(
    ok=all(std is None or abs(std / true[name] - 1) < 0.05 for name, std in got.items()),
    got=f"std {got}",
    right=f"{true} within 5 %, or none and a line that the range is too wide for the spread",
)
