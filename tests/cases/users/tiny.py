"""A site that adds a line to its weights; the environment variable D has the number of parameters."""

import os
from typing import Any

import numpy as np

D = int(os.environ["D"])


class T:
    """Honest, with twenty samples and one metric."""

    samples = 20

    def __init__(self, name: str) -> None:
        self.number = int(name[1:])

    def parameters(self) -> dict[str, Any]:
        return {"w": np.zeros(D, np.float32)}

    def fit(self, parameters: dict[str, Any], _context: Any) -> tuple[dict[str, Any], int, dict[str, float]]:
        return {"w": parameters["w"] + np.linspace(0, 0.1, D, dtype=np.float32)}, 20, {}

    def evaluate(self, _parameters: dict[str, Any], _context: Any) -> tuple[int, dict[str, float]]:
        return 20, {"loss": 0.5}
