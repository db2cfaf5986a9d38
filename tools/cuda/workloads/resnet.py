"""ResNet-18 (He et al. 2016) for images of 32 x 32: a first convolution of 3 x 3, and group normalisation.

Group normalisation has no statistics that travel or stay: all parameters of the site travel.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import nn
from torch.nn.functional import relu

_GROUPS: Final = 32
_WIDTHS: Final = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """Two convolutions of 3 x 3, added to the input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.GroupNorm(_GROUPS, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.GroupNorm(_GROUPS, outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(_GROUPS, outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return f32 ``(batch, outputs, height / stride, width / stride)``."""
        hidden = relu(self.first_norm(self.first(x)))
        return relu(self.second_norm(self.second(hidden)) + self.shortcut(x))


def resnet18(classes: int) -> nn.Module:
    """Return the network, f32 ``(batch, 3, 32, 32)`` to ``(batch, classes)``; 11.2 million parameters."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, _WIDTHS[0], 3, 1, 1, bias=False),
        nn.GroupNorm(_GROUPS, _WIDTHS[0]),
        nn.ReLU(),
    ]
    before = _WIDTHS[0]
    for width in _WIDTHS:
        layers += [BasicBlock(before, width, 1 if width == before else 2), BasicBlock(width, width, 1)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))
