"""A clinic that predicts a number: how far diabetes goes on in a year, of ten measurements."""

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

import securefl

CLINICS = 4
NAMES = tuple(load_diabetes().feature_names)
TARGET = "progression"


class Clinic(securefl.TorchSite):
    """A small network by Adam. It never trains on ``kept`` patients: the run stops by their error."""

    def __init__(
        self, x: np.ndarray, y: np.ndarray, kept: np.ndarray, statistics: securefl.Statistics | None = None
    ) -> None:
        self.raw = {**dict(zip(NAMES, x.T, strict=True)), TARGET: y}
        table = np.column_stack([x, y])
        if statistics is not None:
            table = statistics.standardise(table, (*NAMES, TARGET))
        data = torch.tensor(table, dtype=torch.float32)
        self.train, self.test = data[~kept], data[kept]
        super().__init__(
            network(),
            DataLoader(TensorDataset(self.train[:, :-1], self.train[:, -1:]), batch_size=16, shuffle=True),
            mse_loss,
            lambda weights: torch.optim.Adam(weights, lr=0.003),
            epochs=2,
            evaluate=self.judge,
        )

    def columns(self) -> dict[str, np.ndarray]:
        """Return what `securefl statistics` counts: the raw columns, the target among them."""
        return self.raw

    def judge(self, model: torch.nn.Module) -> tuple[int, dict[str, float]]:
        """Return the squared error on the patients that were kept, in variances of the target."""
        return len(self.test), {"squared_error": mse_loss(model(self.test[:, :-1]), self.test[:, -1:]).item()}


def network() -> torch.nn.Module:
    """Return the first model, the same at every clinic: only its names and shapes count there."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(len(NAMES), 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))


def patients(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return this clinic's patients in scikit-learn's diabetes data: every fourth of them."""
    x, y = load_diabetes(return_X_y=True, scaled=False)
    own = slice(int(name.removeprefix("p")), None, CLINICS)
    return x[own], y[own]


def site(name: str) -> Clinic:
    """Return the site of one clinic. It takes statistics.json from its folder once there is one."""
    told = Path("statistics.json")
    x, y = patients(name)
    kept = np.arange(len(y)) % 5 == 4
    return Clinic(x, y, kept, securefl.Statistics.load(told) if told.exists() else None)
