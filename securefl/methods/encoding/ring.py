"""Signed integers as elements of the ring of integers modulo 2^32 or 2^64 (data flow, steps 6 and 10).

Uniform bytes are uniform elements. Sums decode correctly only with headroom: members * steps < 2^(bits - 1),
where each coordinate is within ``steps`` of 0.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import I64, Ring, expect
from securefl.base.errors import PeerError, UsageError


def ring_dtype(bits: int) -> type[np.uint32] | type[np.uint64]:
    """Return the word type of the ring modulo 2^``bits``; other ``bits`` than 32 and 64 are a UsageError."""
    match bits:
        case 32:
            return np.uint32
        case 64:
            return np.uint64
        case _:
            raise UsageError(f"bits of a ring must be 32 or 64, found {bits}")


def zeros(length: int, bits: int) -> Ring:
    """Return ``length`` zeros, u32 or u64 ``(length,)``."""
    return np.zeros(length, np.uint32) if ring_dtype(bits) is np.uint32 else np.zeros(length, np.uint64)


def to_ring(values: I64, bits: int) -> Ring:
    """Return ``values mod 2^bits``, i64 ``(d,)`` -> a new u32 or u64 ``(d,)``."""
    expect(values, "values", np.int64, (None,))
    return values.astype(np.uint32) if ring_dtype(bits) is np.uint32 else values.astype(np.uint64)


def from_ring(ring: Ring) -> I64:
    """Return the centred lift: representatives in [-2^(bits-1), 2^(bits-1)), as a new i64 ``(d,)``.

    ``ring`` is one-dimensional u32 or u64, else a UsageError.
    """
    if ring.dtype == np.uint32:
        expect(ring, "ring", np.uint32, (None,))
        return ring.view(np.int32).astype(np.int64)
    expect(ring, "ring", np.uint64, (None,))
    return ring.view(np.int64).copy()


def to_wire(ring: Ring) -> bytes:
    """Return the elements as little-endian words without a header, bits / 8 bytes each.

    ``ring`` is one-dimensional u32 or u64, else a UsageError.
    """
    expect(ring, "ring", np.uint32 if ring.dtype == np.uint32 else np.uint64, (None,))
    return ring.astype(ring.dtype.newbyteorder("<"), copy=False).tobytes()


def from_wire(raw: bytes | memoryview, length: int, bits: int, culprit: str) -> Ring:
    """Return the inverse of :func:`to_wire`; every byte string of the right length is a valid vector.

    ``length`` is d, from the receiver's own configuration, never from the peer, which errors name as
    ``culprit``. The bytes are copied.

    Raises:
        PeerError: ``raw`` is not ``length`` words long.
        UsageError: ``bits`` or ``length`` are invalid.
    """
    # Copied: np.frombuffer returns a read-only view that may be unaligned and keeps the frame alive.
    view = _view(raw, length, bits, culprit)
    return view.astype(np.uint32) if ring_dtype(bits) is np.uint32 else view.astype(np.uint64)


def add_wire(total: Ring, raw: bytes | memoryview, culprit: str) -> None:
    """Add ``from_wire(raw, ...)`` to ``total`` in place, modulo the ring, without a copy of the vector.

    Raises:
        PeerError: ``raw`` is not as long as ``total``, which is unchanged.
        UsageError: ``total`` is not one-dimensional u32 or u64.
    """
    expect(total, "total", np.uint32 if total.dtype == np.uint32 else np.uint64, (None,))
    np.add(total, _view(raw, total.size, 8 * total.itemsize, culprit), out=total)


def _view(raw: bytes | memoryview, length: int, bits: int, culprit: str) -> npt.NDArray[Any]:
    word = ring_dtype(bits)
    expected = length * (bits // 8)
    if length < 0:
        raise UsageError(f"length of a vector must be at least 0, found {length}")
    size = raw.nbytes if isinstance(raw, memoryview) else len(raw)
    if size != expected:
        raise PeerError(culprit, f"a vector of {length} {bits}-bit words has {expected} bytes, not {size}")
    return np.frombuffer(raw, dtype=np.dtype(word).newbyteorder("<"))
