"""Reader of CIFAR-10's binary batches.

Format (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009, and its web page): records
of one label byte and 3,072 pixel bytes: red, green and blue plane of 32x32, each row by row.
"""

import hashlib
import math
from pathlib import Path

import numpy as np

from securefl.base.arrays import I64
from securefl.base.errors import ConfigError
from securefl.training.data.dataset import Dataset
from securefl.training.data.files import read_unpacked
from securefl.training.data.idx import U8

SHAPE = (3, 32, 32)
RECORD = 1 + math.prod(SHAPE)
CLASSES = 10

_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_TEST = "test_batch"

_HEAD = 761 * RECORD
_ORIGINAL_HEADS = "567d39b02a948595d71020692317962d93aac7ba43ae15bf03dc28ca4caf12f3"
"""SHA-256 of the first 761 records of all six original files, concatenated."""
_JPEG_SUBSET = "d355cdfe2c0018ece7c0162e3b1ae6a0286dc7c922d59e12d1e50bdda0d05757"
"""SHA-256 of all six unpacked files of JPEG-recompressed images, concatenated."""

_MOMENTS = (0.4734, 0.2516)
"""Mean and deviation of the training images, from common values of the channels.

These have (.4914, .4822, .4465) and (.2470, .2435, .2616).
"""
_JPEG_MOMENTS = (0.4741533969694649, 0.25095844866258527)
"""The same of the JPEG-recompressed images."""


def load_cifar10(folder: Path) -> Dataset:
    """Load ``data_batch_1`` to ``_5`` and ``test_batch`` from ``folder``, as ``.bin`` or ``.bin.gz``.

    Samples are u8 ``(n, 3, 32, 32)``. The title is "CIFAR-10" only for files of the original size that begin
    with the original 761 records. Known images are standardised by constants, others by their own mean and
    deviation.

    Raises:
        ConfigError: a file is missing, cut short, corrupt or not in this format.
    """
    train = [_read(folder, name) for name in _TRAIN]
    test = _read(folder, _TEST)
    batches = [*train, test]
    x_train, y_train = _records(np.concatenate([np.frombuffer(batch, dtype=np.uint8) for batch in train]))
    x_test, y_test = _records(np.frombuffer(test, dtype=np.uint8))
    title, known = _recognise_images(batches)
    mean, std = known or _moments(x_train)
    if not std > 0.0:
        raise ConfigError(
            str(folder),
            "holds constant images only: nothing can be learned",
            "fetch the binary version of CIFAR-10 again",
        )
    return Dataset(
        "cifar10",
        x_train,
        y_train,
        x_test,
        y_test,
        CLASSES,
        SHAPE,
        mean,
        std,
        title,
        measured=known is None,
    )


def _read(folder: Path, name: str) -> bytes:
    plain, packed = folder / f"{name}.bin", folder / f"{name}.bin.gz"
    path = plain if plain.exists() else packed
    content = read_unpacked(path)
    if not content or len(content) % RECORD:
        raise ConfigError(
            str(path),
            f"is damaged: {len(content)} bytes are not a whole number of records of {RECORD}",
            "fetch the binary version of CIFAR-10 again",
        )
    labels = np.frombuffer(content, dtype=np.uint8)[::RECORD]
    if labels.max() >= CLASSES:
        wrong = int(np.argmax(labels >= CLASSES))
        raise ConfigError(
            str(path),
            f"record {wrong} has the label {labels[wrong]}, and CIFAR-10 has {CLASSES} classes",
            "fetch the binary version of CIFAR-10 again",
        )
    return content


def _records(raw: U8) -> tuple[U8, I64]:
    table = raw.reshape(-1, RECORD)
    return table[:, 1:].reshape(-1, *SHAPE), table[:, 0].astype(np.int64)


def _moments(x: U8) -> tuple[float, float]:
    """Return mean and deviation of all values over 255, by counts: f64 copies take a gigabyte."""
    counts = np.zeros(256, dtype=np.int64)
    for block in np.array_split(x, math.ceil(len(x) / 1000)):
        counts += np.bincount(block.ravel(), minlength=256)
    values = np.arange(256) / 255.0
    mean = float(counts @ values) / x.size
    return mean, math.sqrt(float(counts @ (values - mean) ** 2) / x.size)


def _recognise_images(batches: list[bytes]) -> tuple[str, tuple[float, float] | None]:
    """Return the title of the images, and their constants or None."""
    train, test = (sum(len(batch) // RECORD for batch in part) for part in (batches[:-1], batches[-1:]))
    size = f"{train:,}/{test:,}"
    if _digest(batches) == _JPEG_SUBSET:
        return f"CIFAR-10 (JPEG-recompressed, {size} subset)", _JPEG_MOMENTS
    if _digest([batch[:_HEAD] for batch in batches]) != _ORIGINAL_HEADS:
        return f"CIFAR-10 format, unknown files ({size})", None
    whole = all(len(batch) == 10_000 * RECORD for batch in batches)
    return "CIFAR-10" if whole else f"CIFAR-10 ({size} subset)", _MOMENTS


def _digest(parts: list[bytes]) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest()
