"""The convolutional models: of samples (height, width) or (channels, height, width), f32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.training.models.layers import Images, activation, dense

if TYPE_CHECKING:
    from securefl.training.models.parts.cnn import Cnn
    from securefl.training.models.parts.group_norm_cnn import GroupNormCnn
    from securefl.training.models.parts.residual_cnn import ResidualCnn


def cnn(config: Cnn, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """conv5x5 - ReLU - maxpool2, twice, then dense - ReLU - dense: as McMahan et al. 2017, section 3."""
    if len(config.channels) != 2:
        raise ConfigError(
            "model.channels", f"needs two numbers, one per convolution, not {len(config.channels)}"
        )
    colours, height, width = _image(input_shape, "cnn", 4)
    first, second = config.channels
    # Padding 2 keeps height and width, so that two poolings leave a quarter of them, even of 8x8 digits.
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
        *dense((second * pixels, config.dense, classes), "relu"),
    )


def group_norm_cnn(config: GroupNormCnn, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Conv - activation - GroupNorm for each of ``channels``, mean pool, dense - activation - dense.

    Xiang et al. 2023, Table 7. Convolutions have stride 1 and no padding; the norms have no parameters: with
    them the network on MNIST would have 21,898 parameters, and the paper counts 21,802.
    """
    if not config.channels:
        raise ConfigError("model.channels", "needs one number per convolution", "[16, 16, 16]")
    kind = "group-norm-cnn"
    colours, height, width = _image(input_shape, kind, 2)
    lost = len(config.channels) * (config.kernel - 1)
    # Two pixels each way: a group of one value would be normalised to 0, whatever it is.
    if min(height, width) - lost < max(2, config.pool):
        raise ConfigError(
            "model.channels",
            f"{len(config.channels)} convolutions of {config.kernel}x{config.kernel} without padding leave"
            f" {max(0, height - lost)}x{max(0, width - lost)} of {height}x{width} pixels, the pool needs"
            f" {max(2, config.pool)}x{max(2, config.pool)}",
            "fewer of them, or a smaller model.kernel or model.pool",
        )
    layers: list[nn.Module] = [Images()]
    before = colours
    for channels in config.channels:
        convolution = nn.Conv2d(before, channels, kernel_size=config.kernel)
        layers += [convolution, *_normalised(channels, config.groups, config.activation)]
        before = channels
    features = before * config.pool**2
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(config.pool),
        nn.Flatten(),
        *dense((features, config.dense, classes), config.activation),
    )


def residual_cnn(config: ResidualCnn, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """conv3x3 - activation - GroupNorm, ``blocks`` blocks, mean over all pixels, dense - activation - dense.

    The text of Xiang et al. 2023 says of its network for Colorectal only that there is "a residual
    connection" and that it has 33,736 parameters; the layers are those that their published code has.
    """
    colours, _, _ = _image(input_shape, "residual-cnn", config.blocks + 2)
    channels = config.channels
    return nn.Sequential(
        Images(),
        nn.Conv2d(colours, channels, kernel_size=3, padding=1),
        *_normalised(channels, config.groups, config.activation),
        *[Residual(config) for _ in range(config.blocks)],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        *dense((channels, config.dense, classes), config.activation),
    )


class Residual(nn.Module):
    """Twice conv3x3 - activation - GroupNorm, added to the input; then the largest of each 2x2 pixels.

    Height and width shrink by one, since the windows of 2x2 overlap.
    """

    def __init__(self, config: ResidualCnn) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(2):
            layers.append(nn.Conv2d(config.channels, config.channels, kernel_size=3, padding=1))
            layers += _normalised(config.channels, config.groups, config.activation)
        self.layers = nn.Sequential(*layers)
        self.pool = nn.MaxPool2d(2, stride=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return f32 ``(batch, channels, height - 1, width - 1)``."""
        pooled: torch.Tensor = self.pool(x + self.layers(x))
        return pooled


def _normalised(channels: int, groups: int, between: scenario.Activation) -> list[nn.Module]:
    if channels % groups:
        raise ConfigError(
            "model.groups",
            f"{groups} groups cannot share {channels} channels evenly",
            "a divisor of every number in model.channels",
        )
    return [activation(between), nn.GroupNorm(groups, channels, affine=False)]


def _image(input_shape: tuple[int, ...], kind: str, least: int) -> tuple[int, int, int]:
    """Channels, height and width of a sample, ``least`` or more pixels each way."""
    if len(input_shape) not in (2, 3) or min(input_shape[-2:]) < least:
        raise ConfigError(
            "model.type",
            f"a {kind} needs images of at least {least}x{least}, the data has samples {input_shape}",
            "use mlp",
        )
    return input_shape[0] if len(input_shape) == 3 else 1, input_shape[-2], input_shape[-1]
