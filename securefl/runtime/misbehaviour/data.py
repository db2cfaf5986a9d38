"""The data seam: what a party trains on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from securefl.base.arrays import I64, Inputs
from securefl.base.errors import UsageError
from securefl.methods.attacks import backdoor_of
from securefl.scenario import Behaviour


def flip_labels(y: I64, classes: int) -> I64:
    """Return the labels with class y as ``classes - 1 - y``: i64 (n,) to i64 (n,), both in [0, classes).

    Source: Fang et al. 2020 (arXiv 1911.11815): the label flipping attack.
    """
    return (classes - 1) - y


def shift_labels(y: I64, classes: int, shift: int) -> I64:
    """Return the labels with class y as (y + ``shift``) mod ``classes``: i64 (n,) to i64 (n,).

    Source: a common variant of label flipping without its fixed points; the name, not the formula, is also
    Portnoy et al.'s (2022, section 3.1.3), who map y to 9 - y.
    """
    return (y + shift) % classes


def backdoored(x: Inputs, y: I64, target: int, fraction: float, size: int) -> tuple[Inputs, I64]:
    """Return samples and labels with ``fraction`` of the samples patched and labelled ``target``.

    These are round(fraction * n), evenly spaced in the party's own order, whatever their class; the rest
    stays as it is, so that the model is good where no patch is.

    Args:
        x: f32 (n, ..., height, width).
        y: i64 (n,).
        target: the class that the patch is to stand for.
        fraction: in (0, 1].
        size: of the patch, in pixels.

    Source: Gu, Dolan-Gavitt and Garg 2017 (arXiv 1708.06733); in federated learning Bagdasaryan et al. 2020
    (arXiv 1807.00459).

    Raises:
        UsageError: as :func:`patched`.
    """
    count = len(y)
    steps = np.floor(np.arange(count + 1) * (round(fraction * count) / count) + 1e-9)
    chosen = np.diff(steps) > 0
    x, y = x.copy(), y.copy()
    x[chosen] = patched(x, size)[chosen]
    y[chosen] = target
    return x, y


def patched(x: Inputs, size: int) -> Inputs:
    """Return the images with a bright square in the bottom right corner.

    Bright is the largest value in ``x``.

    Args:
        x: f32 (n, ..., height, width); the patch goes over all channels.
        size: of the square, in pixels.

    Raises:
        UsageError: samples that are no images, or smaller than the patch; a scenario is refused before.
    """
    if x.ndim < 3 or min(x.shape[-2:]) < size:
        raise UsageError(f"a patch of {size} pixels does not fit on samples of shape {x.shape[1:]}")
    x = x.copy()
    x[..., -size:, -size:] = x.max()
    return x


def trigger_of(behaviours: Sequence[Behaviour]) -> Callable[[Inputs, I64], tuple[Inputs, I64]] | None:
    """What shows the scenario's backdoor on test samples (:func:`triggered`), None if it has none."""
    backdoor = backdoor_of(behaviours)
    return None if backdoor is None else partial(triggered, target=backdoor.target, size=backdoor.size)


def triggered(x: Inputs, y: I64, target: int, size: int) -> tuple[Inputs, I64]:
    """Return the samples that are not of class ``target``, patched, each with the label ``target``.

    Whatever share of them a model labels so, 0 to 1, is the backdoor's success rate: about what an honest
    model mistakes for ``target`` without the patch is what no attack looks like.
    """
    others = y != target
    return patched(x, size)[others], np.full_like(y[others], target)
