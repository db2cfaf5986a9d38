"""Array types, and checks of dtype and shape."""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.errors import UsageError

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Inputs = F32 | I64
"""Samples of a model, ``(n, *input_shape)``: f32 values, or i64 tokens of a text."""
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Ring = U32 | U64
"""Elements of the integers modulo 2^32 or 2^64."""


def expect(
    array: npt.NDArray[Any], name: str, dtype: type[np.generic], shape: tuple[int | None, ...]
) -> None:
    """Check the dtype and shape of ``array``; ``None`` stands for any length.

    Raises:
        UsageError: the array differs.
    """
    if array.dtype != dtype:
        raise UsageError(f"{name} has dtype {array.dtype}, expected {np.dtype(dtype)}")
    fits = array.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        raise UsageError(f"{name} has shape {array.shape}, expected {shape}")


def digest_of(array: npt.NDArray[Any]) -> bytes:
    """Return the SHA-256 of the array's dtype, shape and little-endian bytes (32 bytes)."""
    contiguous = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    header = f"{contiguous.dtype.str}{contiguous.shape}".encode()
    return hashlib.sha256(header + contiguous.tobytes()).digest()
