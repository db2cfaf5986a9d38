"""Layers that several models share."""

from __future__ import annotations

from typing import assert_never

import torch
from torch import nn

from securefl.scenario import Activation


class Images(nn.Module):
    """Gives samples of shape (height, width) the channel that convolutions expect."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return f32 ``(batch, channels, height, width)``."""
        return x.unsqueeze(1) if x.dim() == 3 else x


def activation(name: Activation) -> nn.Module:
    """The layer for ``activation`` of a scenario's model; ELU has alpha = 1."""
    match name:
        case "relu":
            return nn.ReLU()
        case "elu":
            return nn.ELU()
        case "tanh":
            return nn.Tanh()
        case _:
            assert_never(name)


def dense(widths: tuple[int, ...], between: Activation, dropout: float = 0.0) -> list[nn.Module]:
    """Fully connected layers of these widths, inputs first, with an activation between each two.

    ``dropout`` is the share of the activations that are left out at random while a model is in training mode.
    """
    layers: list[nn.Module] = []
    for i in range(len(widths) - 1):
        if i:
            layers.append(activation(between))
            if dropout:
                layers.append(nn.Dropout(dropout))
        layers.append(nn.Linear(widths[i], widths[i + 1]))
    return layers
