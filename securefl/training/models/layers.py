"""Layers of several models, for samples f32 (height, width) or (channels, height, width)."""

import math
from typing import assert_never

import torch
from torch import nn

from securefl import scenario
from securefl.base.errors import ConfigError


class Images(nn.Module):
    """Layer that adds a channel to samples of shape (height, width)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return f32 ``(batch, channels, height, width)``."""
        return x.unsqueeze(1) if x.dim() == 3 else x


def activation(name: scenario.Activation) -> nn.Module:
    """Return the layer for ``activation`` of a scenario's model; ELU has alpha = 1."""
    match name:
        case "relu":
            return nn.ReLU()
        case "elu":
            return nn.ELU()
        case "tanh":
            return nn.Tanh()
        case _:
            assert_never(name)


def dense(widths: tuple[int, ...], between: scenario.Activation, dropout: float = 0.0) -> list[nn.Module]:
    """Return fully connected layers of these widths, inputs first, with activations between them.

    ``dropout`` is the share of dropped activations.
    """
    layers: list[nn.Module] = []
    for i in range(len(widths) - 1):
        if i:
            layers.append(activation(between))
            if dropout:
                layers.append(nn.Dropout(dropout))
        layers.append(nn.Linear(widths[i], widths[i + 1]))
    return layers


def dense_network(
    input_shape: tuple[int, ...],
    hidden: tuple[int, ...],
    classes: int,
    between: scenario.Activation = "relu",
    dropout: float = 0.0,
) -> nn.Module:
    """Return flattening and :func:`dense` layers up to ``classes`` scores."""
    return nn.Sequential(nn.Flatten(), *dense((math.prod(input_shape), *hidden, classes), between, dropout))


class NextCharacter(nn.Module):
    """Network from tokens i64 ``(batch, length)`` to the scores of the next token at each position.

    Each sequence begins with a zero state. SHARE (section 6.2) and McMahan et al. 2017 (section 3, 256 units)
    have two LSTM layers.
    """

    def __init__(self, classes: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.dense = nn.Linear(hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return scores ``(batch, classes, length)``, as torch's losses expect."""
        states, _ = self.lstm(self.embedding(tokens))
        scores: torch.Tensor = self.dense(states)
        return scores.transpose(1, 2)


class Residual(nn.Module):
    """Twice conv3x3 - activation - GroupNorm, added to the input; then the maximum of each 2x2 pixels.

    Height and width shrink by one, since the 2x2 windows overlap.
    """

    def __init__(self, channels: int, groups: int, between: scenario.Activation) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(2):
            layers.append(nn.Conv2d(channels, channels, kernel_size=3, padding=1))
            layers += normalised_activation(channels, groups, between)
        self.layers = nn.Sequential(*layers)
        self.pool = nn.MaxPool2d(2, stride=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return f32 ``(batch, channels, height - 1, width - 1)``."""
        pooled: torch.Tensor = self.pool(x + self.layers(x))
        return pooled


def normalised_activation(channels: int, groups: int, between: scenario.Activation) -> list[nn.Module]:
    """Return the activation ``between`` and a GroupNorm without parameters."""
    if channels % groups:
        raise ConfigError(
            "model.groups",
            f"{groups} groups cannot share {channels} channels evenly",
            "choose a divisor of each number in model.channels",
        )
    return [activation(between), nn.GroupNorm(groups, channels, affine=False)]


def check_image(input_shape: tuple[int, ...], kind: str, least: int) -> tuple[int, int, int]:
    """Return channels, height and width; reject fewer than ``least`` pixels each way."""
    if len(input_shape) not in (2, 3) or min(input_shape[-2:]) < least:
        raise ConfigError(
            "model.type",
            f"a {kind} needs images of at least {least}x{least}, but the data has samples {input_shape}",
            "use mlp",
        )
    return input_shape[0] if len(input_shape) == 3 else 1, input_shape[-2], input_shape[-1]
