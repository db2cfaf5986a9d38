"""A site with averaged and local buffers and a personal layer; the environment variable D has its numbers."""

from __future__ import annotations

import os

import torch
from torch import nn

import securefl

D = int(os.environ["D"])


class Net(nn.Module):
    """Four parameters and four averaged buffers of a BatchNorm, and D - 8 further parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.wide = nn.Parameter(torch.zeros(D - 8))
        self.head = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.norm(x)) + self.wide.mean()
        return scores


def site(name: str) -> securefl.TorchSite:
    torch.manual_seed(0)
    inputs = torch.randn(20, 2, generator=torch.Generator().manual_seed(int(name[1:])))
    return securefl.TorchSite(
        Net(),
        [(inputs, inputs.sum(1, keepdim=True))],
        nn.functional.mse_loss,
        lambda weights: torch.optim.SGD(weights, lr=0.1),
        samples=20,
        buffers="average",
        personal=("head.*",),
        evaluate=lambda _model: (20, {"loss": 0.5}),
    )
