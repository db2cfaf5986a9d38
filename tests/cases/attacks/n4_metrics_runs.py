"""Simulate several runs of the same sites, and solve the opened metric sums for each site's class counts.

Prints the rank of all sums so far, and how many sites are determined by them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import securefl
from securefl.training.models.tensors import write_tensors

TEXT = """
name = "metrics"
parties = 12
[model]
type = "weights"
file = "w.safetensors"
[clustering]
size = 4
atoms = 2
[secure_sum]
threshold = 2
min_survivors = 2
[evaluation]
samples = 100
[[evaluation.metrics]]
name = "table"
kind = "confusion"
[stop]
rounds = 6
"""
NAMES = [f"p{n:02d}" for n in range(12)]


class Site:
    """Other numbers of two classes at each site."""

    def __init__(self, name: str) -> None:
        number = int(name[1:])
        self.samples = 20 + 5 * number
        self.y = np.random.default_rng(number).integers(0, 2, self.samples)

    def parameters(self) -> Any:
        return {"w": np.zeros(2, np.float32)}

    def fit(self, parameters: Any, _context: Any) -> Any:
        return {"w": parameters["w"] + np.float32(0.25)}, self.samples, {}

    def evaluate(self, _parameters: Any, _context: Any) -> Any:
        return self.samples, {"table": securefl.confusion(self.y, self.y, 2)}


def main() -> None:
    write_tensors(Path("w.safetensors"), Site("p00").parameters())
    Path("m.toml").write_text(TEXT)
    rows: list[list[float]] = []
    for seed in range(1, 4):
        result = securefl.simulate(securefl.load("m.toml"), site=Site, out=f"run-{seed}", seed=seed)
        rows += [[float(name in one.counted) for name in NAMES] for at in result.rounds for one in at.sums]
        matrix = np.array(rows)
        known = np.linalg.pinv(matrix) @ matrix
        found = sum(abs(known[k, k] - 1) < 1e-9 for k in range(12))
        print(f"runs 1 to {seed}: rank {np.linalg.matrix_rank(matrix)}, determined: {found} of 12")


if __name__ == "__main__":
    main()
