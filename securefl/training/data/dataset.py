"""Whole data set before the split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import F32, I64, Inputs
from securefl.base.errors import ConfigError, UsageError
from securefl.training.data.idx import U8

Samples = U8 | F32 | I64
"""u8 for 0 to 1 in steps of 1/255, f32 as is, or i64 tokens, ``(n, *input_shape)``."""


@dataclass(frozen=True, eq=False, repr=False)
class Roles:
    """Speaking roles of a text; ``train`` and ``test``, i64 ``(n,)``, have each sample's role number."""

    names: tuple[str, ...]
    """Names in the order of the text."""
    train: I64
    test: I64


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Labelled data set with its official train/test split.

    ``x_train`` is u8 or f32 ``(n, *input_shape)``, ``y_train`` i64 ``(n,)`` in ``[0, classes)``; the test
    half likewise. Images have ``input_shape`` (channels, height, width). ``mean`` and ``std`` are of the
    training set's values (u8 over 255). For a text, ``x_train`` is i64 tokens ``(n, length)`` in ``[0,
    classes)`` and ``y_train``, of the same shape, the next token at each position, and ``mean`` and ``std``
    are unused.
    """

    name: str
    x_train: Samples
    y_train: I64
    x_test: Samples
    y_test: I64
    classes: int
    input_shape: tuple[int, ...]
    mean: float
    std: float
    title: str = ""
    """Description for plots; differs from the name if the files are not the original ones."""
    roles: Roles | None = None
    servers: Dataset | None = None
    """Data set of the server's samples."""
    measured: bool = False
    """True if ``mean`` and ``std`` are of these samples: no privacy guarantee covers them."""

    def __repr__(self) -> str:
        sizes = f"train={len(self.y_train)}, test={len(self.y_test)}"
        return f"Dataset({self.name!r}, {sizes}, classes={self.classes}, input_shape={self.input_shape})"

    def standardise(self, samples: Samples) -> Inputs:
        """Return ``(samples - mean) / std`` as a new f32 array, or a copy of tokens."""
        if samples.dtype == np.int64:
            return samples.astype(np.int64)
        return standardise(samples, self.mean, self.std)


def standardise(samples: U8 | F32 | I64, mean: float, deviation: float) -> F32:
    """Return ``(samples - mean) / deviation`` as a new f32 array, bytes divided by 255 first."""
    scale = 255.0 if samples.dtype == np.uint8 else 1.0
    out = samples.astype(np.float32)
    out -= np.float32(mean * scale)
    out /= np.float32(deviation * scale)
    return out


def standardised_by_train(
    name: str,
    x_train: Samples,
    y_train: I64,
    x_test: Samples,
    y_test: I64,
    where: str = "data.set",
    classes: int | None = None,
) -> Dataset:
    """Return a data set with the mean and the deviation of its own training samples, u8 or f32.

    ``classes`` is by default the largest label + 1.

    Raises:
        ConfigError: one class only, or all values alike; ``where`` names the data.
        UsageError: train and test samples differ in shape.
    """
    scale = 255.0 if x_train.dtype == np.uint8 else 1.0
    mean = float(x_train.mean(dtype=np.float64)) / scale
    std = float(x_train.std(dtype=np.float64)) / scale
    if not (std > 0.0 and np.isfinite(np.float32(std)) and np.float32(std) > 0.0):
        raise ConfigError(
            where, f"has the standard deviation {std}: nothing can be learned", "check the files"
        )
    classes = classes or int(max(y_train.max(), y_test.max())) + 1
    if classes < 2:
        raise ConfigError(where, "has one class only: nothing can be learned", "check the labels")
    if x_train.shape[1:] != x_test.shape[1:]:
        raise UsageError(
            f"training and test samples must have one shape, found {x_train.shape[1:]} and {x_test.shape[1:]}"
        )
    shape = x_train.shape[1:]
    return Dataset(
        name, x_train, y_train, x_test, y_test, classes, shape, mean, std, title=name, measured=True
    )
