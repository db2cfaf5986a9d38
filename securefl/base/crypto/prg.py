"""Masks: the AES-256-CTR keystream of a key, added to or subtracted from a vector over the ring.

The keystream (NIST SP 800-38A, section 6.5, all-zero initial counter block, big-endian counter) is read as
little-endian words of the ring's width. Every bit is used, so masks are uniform up to the distinguishing
advantage of AES.

Hazards:

- One key is for one mask: two masks under one key reveal the difference of their inputs. Keys come from
  ``agreement.shared_key`` or ``derive_key``, bound to the instance.
- 32-bit and 64-bit masks of one key share their bytes, so a key also belongs to one ring.
- :func:`add_masks` overwrites its keystream with zeros; copies in the library or the operating system remain.
"""

from collections.abc import Iterable
from typing import Literal, overload

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from securefl.base.arrays import U32, U64, Ring
from securefl.base.errors import UsageError

KEY_BYTES = 32
CHUNK_BYTES = 256 * 1024
"""Keystream per chunk, bytes: it fits the second-level cache together with the target's chunk."""

Sign = Literal[1, -1]

_ZEROS = bytes(CHUNK_BYTES)
_BLOCK_BYTES = 16


def add_masks(target: Ring, terms: Iterable[tuple[bytes, Sign]]) -> None:
    """Add (sign 1) or subtract (-1) the masks of many keys, in place and modulo 2^32 or 2^64.

    All keys are applied to a chunk before the next one: 10 to 15 % faster than key by key.

    Args:
        target: uint32 or uint64 of shape (d,), C-contiguous and writeable.
        terms: 32-byte key and sign of each mask.

    Raises:
        UsageError: wrong dtype, shape, layout, key length or sign, or a repeated key; the target is
            unchanged.
    """
    _check_target(target)
    streams = _streams(terms)
    if target.size == 0:
        return
    chunk_bytes = min(CHUNK_BYTES, target.nbytes)
    # The library needs one block less one byte beyond the data.
    buffer = bytearray(chunk_bytes + _BLOCK_BYTES - 1)
    words = np.frombuffer(buffer, dtype=target.dtype.newbyteorder("<"), count=chunk_bytes // target.itemsize)
    zeros = memoryview(_ZEROS)
    try:
        for start in range(0, target.size, words.size):
            chunk = target[start : start + words.size]
            for stream, combine in streams:
                stream.update_into(zeros[: chunk.nbytes], buffer)
                combine(chunk, words[: chunk.size], out=chunk)
    finally:
        words.fill(0)


@overload
def expand(key: bytes, words: int, dtype: type[np.uint32]) -> U32: ...
@overload
def expand(key: bytes, words: int, dtype: type[np.uint64]) -> U64: ...
def expand(key: bytes, words: int, dtype: type[np.uint32] | type[np.uint64]) -> Ring:
    """Return the mask of ``key``, shape ``(words,)``.

    Raises:
        UsageError: another dtype, a negative length, or a key that is not 32 bytes long.
    """
    if words < 0:
        raise UsageError(f"words, the length of a mask, must be at least 0, found {words}")
    if dtype not in (np.uint32, np.uint64):
        raise UsageError(f"dtype of a mask must be uint32 or uint64, found {np.dtype(dtype)}")
    [(stream, _)] = _streams([(key, 1)])
    size = words * np.dtype(dtype).itemsize
    raw = np.empty(size + _BLOCK_BYTES - 1, dtype=np.uint8)
    zeros = memoryview(_ZEROS)
    for start in range(0, size, CHUNK_BYTES):
        stream.update_into(zeros[: size - start], raw[start:].data)
    mask = raw[:size].view(np.dtype(dtype).newbyteorder("<"))
    return mask.astype(np.uint32, copy=False) if dtype == np.uint32 else mask.astype(np.uint64, copy=False)


def _streams(terms: Iterable[tuple[bytes, Sign]]) -> list[tuple[CipherContext, np.ufunc]]:
    seen: set[bytes] = set()
    streams: list[tuple[CipherContext, np.ufunc]] = []
    for key, sign in terms:
        if len(key) != KEY_BYTES:
            raise UsageError(f"a mask key must have {KEY_BYTES} bytes, found {len(key)}")
        if sign not in (1, -1):
            raise UsageError(f"the sign of a mask must be 1 or -1, found {sign}")
        if key in seen:
            raise UsageError("terms must have each mask key once, found one key twice")
        seen.add(key)
        stream = Cipher(AES256(key), CTR(bytes(_BLOCK_BYTES))).encryptor()
        streams.append((stream, np.add if sign == 1 else np.subtract))
    return streams


def _check_target(target: Ring) -> None:
    if target.dtype not in (np.uint32, np.uint64):
        raise UsageError(f"target, a masked vector, must have dtype uint32 or uint64, found {target.dtype}")
    if target.ndim != 1:
        raise UsageError(f"target, a masked vector, must have one dimension, found shape {target.shape}")
    if not target.flags.c_contiguous or not target.flags.writeable:
        raise UsageError("target, a masked vector, must be contiguous and writeable; pass a copy")
