"""Data, model and training that all scripts of this folder share; nothing of a framework.

Ten sites have 143 or 144 of scikit-learn's digits each; 360 other digits are the test set. The last site
attacks.
"""

from __future__ import annotations

from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

SITES = 10
ATTACKER = 9
FACTOR = -10.0
"""Factor by which the attacker multiplies its update."""
ROUNDS = 20
BATCH, LEARNING_RATE = 16, 0.2

torch.set_num_threads(1)


@cache
def digits(*, test: bool) -> tuple[Tensor, Tensor]:
    """Return pictures f32 (n, 64) and labels i64 (n,): every fifth digit is for tests."""
    pictures, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pictures / 16, dtype=torch.float32), torch.tensor(labels)
    chosen = (torch.arange(len(y)) % 5 == 0) == test
    return x[chosen], y[chosen]


def site_data(site: int) -> TensorDataset:
    """Return the training data of a site: every tenth of the other digits."""
    x, y = digits(test=False)
    return TensorDataset(x[site::SITES], y[site::SITES])


def loader(site: int) -> DataLoader[tuple[Tensor, ...]]:
    """Return the batches of a site, in the same order in each round."""
    return DataLoader(site_data(site), batch_size=BATCH)


def new_model() -> nn.Module:
    """Return the model that all sites begin with."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train(model: nn.Module, site: int) -> None:
    """Train the model for one epoch."""
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for x, y in loader(site):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()


def accuracy(model: nn.Module) -> float:
    """Return the share of test digits that the model classifies correctly."""
    x, y = digits(test=True)
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())
