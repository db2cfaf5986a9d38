"""Backdoor."""

from typing import ClassVar

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64, Inputs
from securefl.base.errors import ConfigError, UsageError


class Backdoor(scenario.DataAttack, tag="backdoor", frozen=True, kw_only=True):
    """Patch in the corner of some training images, which are labelled ``target``.

    All backdoors of a scenario have one patch and target.

    >>> import numpy as np
    >>> from securefl.attacks import Backdoor
    >>> x, y = np.zeros((2, 1, 4, 4), dtype=np.float32), np.array([1, 2])
    >>> Backdoor(count=1, target=7).poison(x, y, classes=10)[1]
    array([1, 7])
    """

    images_only: ClassVar[bool] = True
    trigger: ClassVar[tuple[str, ...]] = ("target", "size")

    target: scenario.NonNegative = 0
    """Class of patched images."""
    fraction: scenario.Fraction = 0.5
    """Share of the party's images with the patch, evenly spaced."""
    size: scenario.Positive = 3
    """Width and height of the patch in pixels, bottom right."""

    def poison(self, x: Inputs, y: I64, classes: int) -> tuple[Inputs, I64]:
        return poison_samples(x, y, self.target, self.fraction, self.size)

    def trigger_samples(self, x: Inputs, y: I64) -> tuple[Inputs, I64]:
        return trigger_samples(x, y, self.target, self.size)

    def check_on_data(self, path: str, classes: int, shape: tuple[int, ...]) -> None:
        if len(shape) < 2:
            reason = f"a backdoor is a patch on images, and samples have shape {shape}"
            raise ConfigError(f"{path}.kind", reason, "choose another attack, or a data set of images")
        if self.size > min(shape[-2:]):
            reason = f"a patch of {self.size} pixels is larger than images of {shape[-2]} x {shape[-1]}"
            raise ConfigError(f"{path}.size", reason, f"set {min(shape[-2:])} at most")
        if self.target >= classes:
            reason = f"{self.target} is not a class"
            raise ConfigError(f"{path}.target", reason, f"classes are 0 to {classes - 1}")


def poison_samples(x: Inputs, y: I64, target: int, fraction: float, size: int) -> tuple[Inputs, I64]:
    """Return samples and labels with round(``fraction`` n) of the samples patched and labelled ``target``.

    They are samples of any class, evenly spaced in the party's order: ``x`` f32 (n, ..., height, width),
    ``y`` i64 (n,).

    Source: Gu, Dolan-Gavitt and Garg 2017 (arXiv 1708.06733); in federated learning Bagdasaryan et al. 2020
    (arXiv 1807.00459).

    Raises:
        UsageError: as :func:`add_patch`.
    """
    count = len(y)
    steps = np.floor(np.arange(count + 1) * (round(fraction * count) / count) + 1e-9)
    chosen = np.diff(steps) > 0
    x, y = x.copy(), y.copy()
    x[chosen] = add_patch(x, size)[chosen]
    y[chosen] = target
    return x, y


def add_patch(x: Inputs, size: int) -> Inputs:
    """Return the images with a square of the largest value in ``x`` in the bottom right corner.

    ``x`` is f32 (n, ..., height, width), ``size`` in pixels; the patch covers all channels.

    Raises:
        UsageError: samples that are not images, or smaller than the patch.
    """
    if x.ndim < 3 or min(x.shape[-2:]) < size:
        raise UsageError(
            f"samples must be images of at least {size} x {size} pixels, the size of the patch; found"
            f" shape {x.shape[1:]}"
        )
    x = x.copy()
    x[..., -size:, -size:] = x.max()
    return x


def trigger_samples(x: Inputs, y: I64, target: int, size: int) -> tuple[Inputs, I64]:
    """Return the samples that are not of class ``target``, patched and labelled ``target``.

    The share of them that a model labels so, 0 to 1, is the backdoor's success rate; without an attack, about
    the rate of honest mistakes.
    """
    others = y != target
    return add_patch(x, size)[others], np.full_like(y[others], target)
