"""Safe reading of untrusted numpy archives."""

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base import narrowing
from securefl.base.arrays import F32, I64
from securefl.base.errors import ConfigError
from securefl.training.data.files import MAX_BYTES

_DEFECTS = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    MemoryError,
    OverflowError,
    SyntaxError,  # numpy's parser of array headers
    RuntimeError,  # an encrypted or unsupported zip member
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions of numpy and zipfile on damaged archives."""

MAX_CLASSES = 65_536
"""Largest number of classes: the last layer grows with the largest label."""


MOST_PACKED = 100
"""Largest ratio of unpacked to packed size of arrays above :data:`MAX_BYTES`: zeros reach 1000."""


def read_npz(path: Path, keys: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays named ``keys`` of the archive ``path``; never load objects, which can run code.

    Raises:
        ConfigError: file or key is missing, the archive is damaged, or an array holds objects or unpacks to
            far more.
    """
    with _archive(path) as opened:
        return {key: _member(opened, key, path) for key in keys}


def names_in(path: Path) -> frozenset[str]:
    """Return the names of the arrays in the archive ``path``.

    Raises:
        ConfigError: the file is missing, not an archive, or damaged.
    """
    with _archive(path) as opened:
        return frozenset(opened.files)


def _archive(path: Path) -> np.lib.npyio.NpzFile:
    try:
        opened = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ConfigError(
            str(path), "file not found", "paths are relative to the working directory"
        ) from None
    except _DEFECTS as error:
        remedy = "write it with numpy.savez"
        raise ConfigError(str(path), f"is not a readable npz archive{_why(error)}", remedy) from None
    if not isinstance(opened, np.lib.npyio.NpzFile):
        raise ConfigError(str(path), "holds one bare array, not an npz archive", "write it with numpy.savez")
    return opened


def _member(archive: np.lib.npyio.NpzFile, key: str, path: Path) -> npt.NDArray[Any]:
    if key not in archive.files:
        have = ", ".join(sorted(archive.files)) or "nothing"
        raise ConfigError(
            f"{path}[{key}]", f"is missing; the archive holds {have}", "add it, written by numpy.savez"
        )
    try:
        packed = archive.zip
        assert packed is not None, "it is open"  # noqa: S101
        info = packed.getinfo(key if key in packed.namelist() else f"{key}.npy")
        if info.file_size > max(MAX_BYTES, MOST_PACKED * info.compress_size):
            reason = f"unpacks from {info.compress_size:,} to {info.file_size:,} bytes"
            raise ConfigError(f"{path}[{key}]", reason, "write it with numpy.savez")
        array = archive[key]
    except _DEFECTS as error:
        objects = _objects(error)
        reason = "holds Python objects, not numbers" if objects else f"cannot be read{_why(error)}"
        raise ConfigError(f"{path}[{key}]", reason, "store an array of numbers by numpy.savez") from None
    if not isinstance(array, np.ndarray):
        raise ConfigError(f"{path}[{key}]", "is not stored as a numpy array", "write it with numpy.savez")
    return array


def _objects(error: Exception) -> bool:
    return "pickle" in str(error)


def _why(error: Exception) -> str:
    """Return numpy's reason, without its advice to load objects."""
    lines = str(error).strip().splitlines()
    return "" if _objects(error) or not lines else f": {lines[0]}"


def labels_of(array: npt.NDArray[Any], where: str, per_sample: tuple[int, ...] = ()) -> I64:
    """Return ``array`` as class labels: i64 ``(n, *per_sample)``, in ``[0, MAX_CLASSES)``.

    Raises:
        ConfigError: another shape, empty, not integers, or out of range; ``where`` names it.
    """
    if array.ndim < 1 or array.shape[1:] != per_sample or array.dtype.kind not in "iu":
        shape = f"(n, {', '.join(map(str, per_sample))})" if per_sample else "(n,)"
        raise ConfigError(
            where,
            f"has dtype {array.dtype} and shape {array.shape}, expected integers {shape}",
            "store whole numbers in this shape",
        )
    if array.size == 0:
        raise ConfigError(where, "is empty", "store at least one sample")
    low, high = int(array.min()), int(array.max())
    if low < 0:
        raise ConfigError(where, f"holds the negative label {low}", "number the classes from 0")
    if high >= MAX_CLASSES:
        raise ConfigError(where, f"holds the label {high}", f"labels must be in [0, {MAX_CLASSES})")
    return array.astype(np.int64)


def finite_f32(array: npt.NDArray[Any], where: str) -> F32:
    """Return an ``array`` of floating-point numbers as f32, all finite.

    Raises:
        ConfigError: another dtype, or a number that is not finite in f32; ``where`` names it.
    """
    if array.dtype.kind != "f":
        raise ConfigError(
            where,
            f"has dtype {array.dtype}, expected floating-point numbers",
            'convert it with astype("float32")',
        )
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    bad = int(narrow.size - np.count_nonzero(np.isfinite(narrow)))
    if bad:
        raise ConfigError(where, f"holds {bad} values that are not finite 32-bit numbers", "replace them")
    try:
        narrowing.check_f32(array, narrow)
    except narrowing.NarrowingError as error:
        raise ConfigError(where, f"holds {error}", "subtract a constant that all parties know") from error
    return narrow
