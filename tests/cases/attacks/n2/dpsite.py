"""24 sites of one secret bit each: a record whose naive softmax is NaN once the model's weight is large."""

from __future__ import annotations

from typing import Any

import numpy as np

import securefl

SECRET = [int(bit) for bit in np.random.default_rng(7).integers(0, 2, 24)]


class Site:
    def __init__(self, name: str) -> None:
        number = int(name[1:])
        rng = np.random.default_rng(number)
        self.samples = 30
        self.x = rng.normal(0, 1, 30)
        self.y = rng.integers(0, 2, 30)
        if SECRET[number]:
            self.x[3] = 40.0

    def parameters(self) -> dict[str, Any]:
        return {"w": np.zeros(1, np.float32)}

    def fit(self, parameters: Any, _context: Any) -> Any:
        return {"w": parameters["w"]}, self.samples, {}

    def evaluate(self, parameters: Any, _context: Any) -> Any:
        with np.errstate(all="ignore"):
            exponent = np.exp(np.float64(parameters["w"][0]) * self.x)
            scores = exponent / (1 + exponent)
        return self.samples, {"scores": securefl.score_histogram(scores, self.y)}
