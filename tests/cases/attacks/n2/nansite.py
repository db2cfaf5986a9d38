"""12 sites; p05 alone has the property that is asked about, and fails in the way that a variable names."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import numpy as np

import securefl
from securefl.base.errors import UsageError

MODE = os.environ.get("OMP_ATTACK", "hist")


class Site:
    def __init__(self, name: str) -> None:
        rng = np.random.default_rng(int(name[1:]))
        self.name = name
        self.samples = 30
        self.x = rng.normal(0, 1, self.samples)
        self.y = rng.integers(0, 2, self.samples)
        if name == "p05":
            self.x[3] = 40.0

    def parameters(self) -> dict[str, Any]:
        return {"w": np.zeros(1, np.float32)}

    def fit(self, parameters: Any, context: Any) -> Any:
        if self.name == "p05":
            if MODE == "cancel":
                raise asyncio.CancelledError
            if MODE == "keyboard":
                raise KeyboardInterrupt
            if MODE == "stop" and context.number == 0:
                next(iter([]))
            if MODE == "usage":
                raise UsageError("whatever")
        return {"w": parameters["w"] + np.float32(0.1)}, self.samples, {}

    def evaluate(self, parameters: Any, _context: Any) -> Any:
        with np.errstate(all="ignore"):
            exponent = np.exp(np.float64(parameters["w"][0]) * self.x)
            scores = exponent / (1 + exponent)
        if MODE != "hist":
            scores = np.full(self.samples, 0.5)
        return self.samples, {"scores": securefl.score_histogram(scores, self.y)}
