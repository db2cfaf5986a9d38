"""Convolutions with group normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from securefl import scenario

if TYPE_CHECKING:
    from torch import nn


class GroupNormCnn(scenario.Model, tag="group-norm-cnn", frozen=True, kw_only=True):
    """Convolutions, each with group normalisation, a pool to ``pool`` x ``pool``, two dense layers.

    Group normalisation goes by one sample at a time, so that each has a gradient of its own. It has no
    parameters here. The defaults are the network of Xiang et al. 2023, Table 7.
    """

    class_biases = True
    channels: tuple[scenario.Positive, ...] = (16, 16, 16)
    """One number per convolution."""
    kernel: scenario.Positive = 5
    groups: scenario.Positive = 4
    pool: scenario.Positive = 4
    dense: scenario.Positive = 32
    activation: scenario.Activation = "elu"

    def build(self, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        from securefl.training.models.convolutions import group_norm_cnn

        return group_norm_cnn(self, input_shape, classes)
