"""pytorch/examples PR#1396 (#623), flwrlabs/flower PR#3794.

p00 trains on 4 of its 1,000 rows (SubsetRandomSampler).
"""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

import securefl
from tests.cases.users.common import play, verdict
from tests.cases.users.play import MSE, linear, loader, sgd


def site(name: str) -> securefl.TorchSite:
    if name != "p00":
        return securefl.TorchSite(linear(), loader(100), MSE, sgd(0.01))
    rows = TensorDataset(torch.zeros(1000, 4), torch.full((1000, 1), 100.0))
    few = DataLoader(rows, batch_size=4, sampler=SubsetRandomSampler(range(4)))
    return securefl.TorchSite(linear(), few, MSE, sgd(0.01))


try:
    declared = site("p00").samples
except securefl.ConfigError as error:
    verdict(ok=True, got=error, right="")
verdict(
    ok=declared == 4,
    got=f"declares {declared} samples; bias after one round {play(site, 1).arrays()['bias']}",
    right="4 = len(loader.sampler), 2 % of the weight; or asked for samples=",
)
