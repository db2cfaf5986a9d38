"""Convolutional network with group normalisation."""

from securefl import scenario
from securefl.base.errors import ConfigError


class GroupNormCnn(scenario.Model, tag="group-norm-cnn", frozen=True, kw_only=True):
    """Convolutions, each with group normalisation, a pool to ``pool`` x ``pool``, two dense layers.

    Group normalisation treats each sample alone, so that each has its own gradient. Here it has no
    parameters. The defaults are the network of Xiang et al. 2023, Table 7.
    """

    class_biases = True
    channels: tuple[scenario.Positive, ...] = (16, 16, 16)
    """Output channels, one number per convolution."""
    kernel: scenario.Positive = 5
    """Width of each convolution, without padding."""
    groups: scenario.Positive = 4
    """Groups of the normalisation."""
    pool: scenario.Positive = 4
    """Side of the mean pool."""
    dense: scenario.Positive = 32
    """Width of the first dense layer."""
    activation: scenario.Activation = "elu"
    """Function between layers."""

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        """Build conv - activation - GroupNorm, repeated, mean pool, dense - activation - dense.

        Xiang et al. 2023, Table 7. Convolutions have stride 1 and no padding. Without parameters of the norms
        the network has the 21,802 parameters on MNIST that the paper counts.
        """
        from torch import nn

        from securefl.training.models.layers import Images, check_image, dense, normalised_activation

        if not self.channels:
            raise ConfigError("model.channels", "needs one number per convolution", "as in [16, 16, 16]")
        colours, height, width = check_image(input_shape, "group-norm-cnn", 2)
        lost = len(self.channels) * (self.kernel - 1)
        # A group of one value is always normalised to 0.
        if min(height, width) - lost < max(2, self.pool):
            raise ConfigError(
                "model.channels",
                f"{len(self.channels)} convolutions of {self.kernel}x{self.kernel} without padding leave"
                f" {max(0, height - lost)}x{max(0, width - lost)} of {height}x{width} pixels, but the pool "
                f"needs {max(2, self.pool)}x{max(2, self.pool)}",
                "fewer of them, or a smaller model.kernel or model.pool",
            )
        layers: list[nn.Module] = [Images()]
        before = colours
        for channels in self.channels:
            convolution = nn.Conv2d(before, channels, kernel_size=self.kernel)
            layers += [convolution, *normalised_activation(channels, self.groups, self.activation)]
            before = channels
        features = before * self.pool**2
        return nn.Sequential(
            *layers,
            nn.AdaptiveAvgPool2d(self.pool),
            nn.Flatten(),
            *dense((features, self.dense, classes), self.activation),
        )
