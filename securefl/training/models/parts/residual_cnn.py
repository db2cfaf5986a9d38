"""Convolutional network with residual blocks."""

from securefl import scenario


class ResidualCnn(scenario.Model, tag="residual-cnn", frozen=True, kw_only=True):
    """3x3 convolutions with group normalisation, in blocks of two that are added to their input.

    The defaults are the network of Xiang et al. 2023 for Colorectal.
    """

    class_biases = True
    channels: scenario.Positive = 16
    """Channels of every convolution."""
    blocks: scenario.Positive = 7
    """Residual blocks of two convolutions, each followed by a 2x2 maximum at stride 1."""
    groups: scenario.Positive = 4
    """Groups of the normalisation."""
    dense: scenario.Positive = 32
    """Width of the first dense layer, after the mean over all pixels."""
    activation: scenario.Activation = "elu"
    """Function between layers."""

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        """Build conv3x3 - activation - GroupNorm, blocks, mean over pixels, dense - activation - dense.

        The layers are those of the code of Xiang et al. 2023, whose text states "a residual connection" and
        33,736 parameters.
        """
        from torch import nn

        from securefl.training.models.layers import (
            Images,
            Residual,
            check_image,
            dense,
            normalised_activation,
        )

        colours, _, _ = check_image(input_shape, "residual-cnn", self.blocks + 2)
        channels = self.channels
        return nn.Sequential(
            Images(),
            nn.Conv2d(colours, channels, kernel_size=3, padding=1),
            *normalised_activation(channels, self.groups, self.activation),
            *[Residual(channels, self.groups, self.activation) for _ in range(self.blocks)],
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            *dense((channels, self.dense, classes), self.activation),
        )
