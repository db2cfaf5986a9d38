"""Public ternary projections of a vector over Z_2^64, from a jointly chosen seed (ADR 0024).

Entry (j, i) of the projection matrix is -1, 0 or 1 with probability 1/4, 1/2, 1/4, independently: the
difference of two bits of a stream. Projections of shares add up to those of the vector.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from securefl.base import crypto
from securefl.base.arrays import F64, U64, expect
from securefl.base.errors import UsageError
from securefl.base.ids import Instance, PartyId

NONCE_BYTES = 32
MAX_PROJECTIONS = 256

_BLOCK = 1 << 11
"""Coordinates projected at a time: the unpacked signs of 64 projections fill 1 MiB."""
_LIMB_BITS = 16
"""Bits of the limbs of words, whose products with signs float64 sums exactly."""


def nonce_commitment(nonce: bytes, instance: Instance, party: PartyId) -> bytes:
    """Return a member's commitment to its nonce, 32 bytes, published before any share is sent."""
    return crypto.digest("sketch nonce commitment", *instance, party, nonce)


def sketch_seed(nonces: Mapping[PartyId, bytes], instance: Instance, receipts: bytes) -> bytes:
    """Return the seed (32 bytes) of the matrix of one secure sum.

    ``nonces``, 32 bytes each, are of *all* members: an optional one would let its member choose between two
    seeds. ``receipts`` is the digest of all receipts, so that other shares give another seed.

    Raises:
        UsageError: no nonces, or one of another length.
    """
    if not nonces or any(len(nonce) != NONCE_BYTES for nonce in nonces.values()):
        raise UsageError(f"nonces of a sketch seed must be 1 or more, of {NONCE_BYTES} bytes each")
    fields: list[str | bytes] = []
    for party in sorted(nonces):
        fields += [party, nonces[party]]
    return crypto.digest("sketch seed", *instance, receipts, *fields)


def project(seed: bytes, vectors: U64, projections: int) -> U64:
    """Return the projections of each row, modulo 2^64: u64 ``(rows, d)`` -> u64 ``(rows, projections)``.

    Float64 sums are exact: 2048 products of 16-bit limbs with signs stay below 2^27. Later additions wrap as
    intended. ``projections`` is a multiple of 8, at most 256.

    Raises:
        UsageError: another dtype, shape, seed length or number of projections.
    """
    expect(vectors, "vectors", np.uint64, (None, None))
    rows, length = vectors.shape
    bits = _bits(seed, length, projections)
    total = np.zeros((rows, projections), np.uint64)
    for start in range(0, length, _BLOCK):
        signs = _signs(bits[start : start + _BLOCK])
        block = vectors[:, start : start + _BLOCK]
        for shift in range(0, 64, _LIMB_BITS):
            limb = (block >> np.uint64(shift)) & np.uint64((1 << _LIMB_BITS) - 1)
            part = (limb.astype(np.float64) @ signs).astype(np.int64).astype(np.uint64)
            total += part << np.uint64(shift)
    return total


def matrix(seed: bytes, length: int, projections: int) -> npt.NDArray[np.int8]:
    """Return the matrix, i8 ``(projections, length)``: for tests and small sizes."""
    return _signs(_bits(seed, length, projections)).astype(np.int8).T


def _bits(seed: bytes, length: int, projections: int) -> npt.NDArray[np.uint8]:
    if len(seed) != NONCE_BYTES:
        raise UsageError(f"seed of a sketch must have {NONCE_BYTES} bytes, found {len(seed)}")
    if projections % 8 or not 0 < projections <= MAX_PROJECTIONS:
        raise UsageError(
            f"projections must be a multiple of 8 from 8 to {MAX_PROJECTIONS}, found {projections}"
        )
    size = 2 * length * projections // 8
    stream = crypto.expand(crypto.derive_key(seed, "sketch", b""), -(-size // 8), np.uint64)
    raw = stream.astype("<u8", copy=False).view(np.uint8)[:size]
    return raw.reshape(length, 2, projections // 8)


def _signs(bits: npt.NDArray[np.uint8]) -> F64:
    plus = np.unpackbits(bits[:, 0], axis=1, bitorder="little").astype(np.float64)
    plus -= np.unpackbits(bits[:, 1], axis=1, bitorder="little")
    return plus
