"""Parts of convolutional models: of samples (height, width) or (channels, height, width), f32."""

from __future__ import annotations

import torch
from torch import nn

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.training.models.layers import activation


class Residual(nn.Module):
    """Twice conv3x3 - activation - GroupNorm, added to the input; then the largest of each 2x2 pixels.

    Height and width shrink by one, since the windows of 2x2 overlap.
    """

    def __init__(self, channels: int, groups: int, between: scenario.Activation) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(2):
            layers.append(nn.Conv2d(channels, channels, kernel_size=3, padding=1))
            layers += normalised(channels, groups, between)
        self.layers = nn.Sequential(*layers)
        self.pool = nn.MaxPool2d(2, stride=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return f32 ``(batch, channels, height - 1, width - 1)``."""
        pooled: torch.Tensor = self.pool(x + self.layers(x))
        return pooled


def normalised(channels: int, groups: int, between: scenario.Activation) -> list[nn.Module]:
    """Return the activation ``between`` and a GroupNorm without parameters."""
    if channels % groups:
        raise ConfigError(
            "model.groups",
            f"{groups} groups cannot share {channels} channels evenly",
            "a divisor of every number in model.channels",
        )
    return [activation(between), nn.GroupNorm(groups, channels, affine=False)]


def check_image(input_shape: tuple[int, ...], kind: str, least: int) -> tuple[int, int, int]:
    """Return channels, height and width of a sample; refuse fewer than ``least`` pixels each way."""
    if len(input_shape) not in (2, 3) or min(input_shape[-2:]) < least:
        raise ConfigError(
            "model.type",
            f"a {kind} needs images of at least {least}x{least}, the data has samples {input_shape}",
            "use mlp",
        )
    return input_shape[0] if len(input_shape) == 3 else 1, input_shape[-2], input_shape[-1]
