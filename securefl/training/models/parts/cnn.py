"""Two convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from securefl import scenario

if TYPE_CHECKING:
    from torch import nn


class Cnn(scenario.Model, tag="cnn", frozen=True, kw_only=True):
    """Two 5x5 convolutions with max-pooling, then two dense layers."""

    class_biases = True
    channels: tuple[scenario.Positive, ...] = (16, 32)
    dense: scenario.Positive = 64

    def build(self, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        from securefl.training.models.convolutions import cnn

        return cnn(self, input_shape, classes)
