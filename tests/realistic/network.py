"""The network of the clinics and its metrics, in torch and numpy alone: no import of securefl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

SIDE = 16
"""Height and width of a picture."""
BINS = 50
FEW_BINS = 5
LOSS_LIMIT = 8.0
"""Upper end of the declared range of a site's mean loss."""


class Network(nn.Module):
    """Three convolutions and two dense layers with BatchNorm: 1.2 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_convolution(1, 32),
            nn.MaxPool2d(2),
            *_convolution(32, 64),
            nn.MaxPool2d(2),
            *_convolution(64, 128),
        )
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(128 * 16, 540, bias=False),
            nn.BatchNorm1d(540),
            nn.ReLU(),
            nn.Linear(540, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores (logits) of pictures f32 ``(n, 1, 16, 16)``, f32 ``(n,)``."""
        scores: torch.Tensor = self.head(self.features(x))[:, 0]
        return scores


def network() -> Network:
    """The network with weights of a fixed seed, and with BatchNorm statistics of noise."""
    torch.manual_seed(30)
    model = Network()
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d)]
    for part in norms:
        part.momentum = 1.0
    with torch.no_grad():
        model(torch.randn(256, 1, SIDE, SIDE))
    for part in norms:
        part.momentum = 0.1
    return model


def _convolution(before: int, after: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()


def load(file: Path, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures and labels of one clinic: ``part`` is ``train`` or ``test``."""
    with np.load(file) as arrays:
        return torch.from_numpy(arrays[f"x_{part}"]), torch.from_numpy(arrays[f"y_{part}"])


def judged(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
    """Samples, mean loss, share of right answers and scores by label of a model in evaluation mode.

    Returns:
        ``samples``, ``loss``, ``accuracy`` and ``scores`` f32 ``(n,)``, probabilities of label 1.
    """
    with torch.no_grad():
        logits = model(x)
        loss = binary_cross_entropy_with_logits(logits, y).item()
        right = ((logits > 0) == (y > 0.5)).double().mean().item()
        return {"samples": len(y), "loss": loss, "accuracy": right, "scores": logits.sigmoid().numpy()}
