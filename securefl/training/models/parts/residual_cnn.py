"""Residual blocks of convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from securefl.scenario import Activation, Model, Positive

if TYPE_CHECKING:
    from torch import nn


class ResidualCnn(Model, tag="residual-cnn", frozen=True, kw_only=True):
    """3x3 convolutions with group normalisation, in blocks of two that are added to their input.

    The defaults are the network of Xiang et al. 2023 for Colorectal.
    """

    class_biases = True
    channels: Positive = 16
    blocks: Positive = 7
    groups: Positive = 4
    dense: Positive = 32
    activation: Activation = "elu"

    def build(self, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        from securefl.training.models.convolutions import residual_cnn

        return residual_cnn(self, input_shape, classes)
