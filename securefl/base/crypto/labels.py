"""Injective encoding of mixed fields for hashes, key derivation and contexts.

Each field carries its type and length, unlike in a concatenation (``"ab" + "c"``, ``"a" + "bc"``). The number
of fields comes first, so no encoding is a proper prefix of another.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache

from securefl.base.errors import UsageError

_DOMAIN = "securefl/1"
_LENGTH_BYTES = 8


def encode(*fields: bytes | str | int) -> bytes:
    """Encode ``fields`` to bytes; no other list of fields has the same encoding.

    Layout, big-endian: number of fields (4 bytes); per field a type byte (``b``, ``s`` or ``i``), length (8
    bytes), and bytes, UTF-8 text or shortest two's complement.

    Raises:
        UsageError: a field has another type (also bool, which would collide with 0 and 1), or text has a lone
            surrogate.
    """
    return b"".join((len(fields).to_bytes(4, "big"), *map(_field, fields)))


def digest(label: str, *fields: bytes | str | int) -> bytes:
    """Return the SHA-256 over :func:`encode` of ``("securefl/1", label, *fields)``: 32 bytes.

    ``label`` names the purpose (``"model"``, ``"config"``): digests for two purposes are unrelated.
    """
    return hashlib.sha256(encode(_DOMAIN, label, *fields)).digest()


def digest_with(label: str, *fixed: bytes | str | int, more: int) -> Callable[..., bytes]:
    """Return a function f with ``f(*rest) == digest(label, *fixed, *rest)`` for ``more`` further fields.

    f hashes the fixed beginning only once.

    Raises:
        UsageError: f is called with another number of fields.
    """
    count = 2 + len(fixed) + more
    begin = hashlib.sha256(b"".join((count.to_bytes(4, "big"), *map(_field, (_DOMAIN, label, *fixed)))))

    def finish(*rest: bytes | str | int) -> bytes:
        if len(rest) != more:
            raise UsageError(f"cannot finish this digest: it takes {more} further fields, found {len(rest)}")
        state = begin.copy()
        state.update(b"".join([_field(field) for field in rest]))
        return state.digest()

    return finish


def _field(field: bytes | str | int) -> bytes:
    # Exact type first: one large sum calls this tens of thousands of times.
    if type(field) is int:
        return _integer(field)
    if isinstance(field, bytes):
        return b"b" + len(field).to_bytes(_LENGTH_BYTES, "big") + field
    if isinstance(field, str):
        return _text(field)
    if isinstance(field, int) and not isinstance(field, bool):
        return _integer(field)
    raise UsageError(
        f"a field of a digest or signature must be bytes, str or int, found {type(field).__name__}"
    )


# Texts are few labels and names, never secrets: the cache reveals nothing.
@lru_cache(maxsize=4096)
def _text(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "a text field of a digest or signature must be valid Unicode: it holds a lone surrogate"
        ) from error
    return b"s" + len(raw).to_bytes(_LENGTH_BYTES, "big") + raw


def _integer(number: int) -> bytes:
    return _SMALL[number] if 0 <= number < len(_SMALL) else _encode_number(number)


def _encode_number(number: int) -> bytes:
    # Two's complement needs a sign bit, and for -2^k one bit less than for 2^k, hence ~n.
    size = (((number if number >= 0 else ~number).bit_length() + 1) + 7) // 8
    return b"i" + size.to_bytes(_LENGTH_BYTES, "big") + number.to_bytes(size, "big", signed=True)


# A table, not a cache: each round of a long run would add its number to a cache.
_SMALL = tuple(map(_encode_number, range(1024)))
