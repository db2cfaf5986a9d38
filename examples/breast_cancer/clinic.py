"""A clinic's own training on raw columns: it standardises them by statistics of all clinics together."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

import securefl

CLINICS = 5
NAMES = tuple(str(name) for name in load_breast_cancer().feature_names)


def patients(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return this clinic's patients in the Wisconsin breast cancer data: every fifth of them."""
    x, y = load_breast_cancer(return_X_y=True)
    own = slice(int(name.removeprefix("p")), None, CLINICS)
    return x[own], y[own]


class Clinic:
    """Logistic regression by gradient descent, in nothing but numpy."""

    def __init__(
        self, x: np.ndarray, y: np.ndarray, statistics: securefl.Statistics | None = None, steps: int = 20
    ) -> None:
        self.raw, self.y, self.steps = x, y, steps
        self.x = x if statistics is None else statistics.standardise(x, NAMES)
        self.samples = len(y)

    def columns(self) -> dict[str, np.ndarray]:
        """Return what `securefl statistics` counts: the raw columns, and the labels."""
        return {**dict(zip(NAMES, self.raw.T, strict=True)), "malignant": 1 - self.y}

    def parameters(self) -> dict[str, np.ndarray]:
        return {"weight": np.zeros(len(NAMES), np.float32), "bias": np.zeros(1, np.float32)}

    def fit(
        self, parameters: Mapping[str, np.ndarray], context: securefl.RoundContext
    ) -> tuple[dict[str, np.ndarray], int, dict[str, float]]:
        weight, bias = parameters["weight"].astype(float), float(parameters["bias"][0])
        for _ in range(self.steps):
            error = chance(self.x, weight, bias) - self.y
            weight -= RATE * (self.x.T @ error / len(self.y) + RIDGE * weight)
            bias -= RATE * error.mean()
        return {"weight": weight, "bias": np.array([bias])}, len(self.y), {}

    def evaluate(
        self, parameters: Mapping[str, np.ndarray], context: securefl.RoundContext
    ) -> tuple[int, dict[str, object]]:
        scores = chance(self.x, parameters["weight"], float(parameters["bias"][0]))
        return len(self.y), {"scores": securefl.score_histogram(scores, self.y)}


RATE, RIDGE = 0.5, 1e-3


def chance(x: np.ndarray, weight: np.ndarray, bias: float) -> np.ndarray:
    """Return the probability that a patient is of class 1."""
    scores: np.ndarray = 1 / (1 + np.exp(-np.clip(x @ weight + bias, -30, 30)))
    return scores


def site(name: str) -> Clinic:
    """Return the site of one clinic. It takes statistics.json from its folder once there is one."""
    told = Path("statistics.json")
    return Clinic(*patients(name), securefl.Statistics.load(told) if told.exists() else None)
