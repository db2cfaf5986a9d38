"""Network of two convolutions."""

from securefl import scenario
from securefl.base.errors import ConfigError


class Cnn(scenario.Model, tag="cnn", frozen=True, kw_only=True):
    """Two 5x5 convolutions with 2x2 max-pooling, then two dense layers."""

    class_biases = True
    channels: tuple[scenario.Positive, ...] = (16, 32)
    """Output channels of each convolution. ``[32, 64]`` with ``dense = 512`` is the network of McMahan et al.
    2017, section 3, which fits SHARE's description: d = 2,156,490 on ``cifar10``."""
    dense: scenario.Positive = 64
    """Width of the first dense layer."""

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        """Build conv5x5 - ReLU - maxpool2, twice, dense - ReLU - dense (McMahan et al. 2017, section 3)."""
        from torch import nn

        from securefl.training.models.layers import Images, check_image, dense

        if len(self.channels) != 2:
            raise ConfigError(
                "model.channels",
                f"needs two numbers, one per convolution, not {len(self.channels)}",
                "as in [16, 32]",
            )
        colours, height, width = check_image(input_shape, "cnn", 4)
        first, second = self.channels
        # Padding 2 keeps the size, so two poolings leave a quarter, even of 8x8 digits.
        pixels = (height // 4) * (width // 4)
        return nn.Sequential(
            Images(),
            nn.Conv2d(colours, first, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            *dense((second * pixels, self.dense, classes), "relu"),
        )
