"""Residual blocks of convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from securefl import scenario

if TYPE_CHECKING:
    from torch import nn


class ResidualCnn(scenario.Model, tag="residual-cnn", frozen=True, kw_only=True):
    """3x3 convolutions with group normalisation, in blocks of two that are added to their input.

    The defaults are the network of Xiang et al. 2023 for Colorectal.
    """

    class_biases = True
    channels: scenario.Positive = 16
    blocks: scenario.Positive = 7
    groups: scenario.Positive = 4
    dense: scenario.Positive = 32
    activation: scenario.Activation = "elu"

    def build(self, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        from securefl.training.models.convolutions import residual_cnn

        return residual_cnn(self, input_shape, classes)
