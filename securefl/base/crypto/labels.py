"""Unambiguous encoding of mixed fields for hashes, key derivation and contexts.

Plain concatenation encodes two lists of fields to the same bytes (``"ab" + "c"``, ``"a" + "bc"``). Here each
field carries its type and length, so the encoding is injective. No encoding is a proper prefix of another,
since the number of fields comes first.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache

from securefl.base.errors import UsageError

_DOMAIN = "securefl/1"
_LENGTH_BYTES = 8


def encode(*fields: bytes | str | int) -> bytes:
    """Encode ``fields`` to bytes; no other list of fields has the same encoding.

    Layout: the number of fields (4 bytes), then per field a type byte (``b``, ``s`` or ``i``), its length (8
    bytes) and its content: the bytes, the text in UTF-8, or the integer in the shortest two's complement. All
    numbers are big-endian. ``True`` and ``False`` are refused: they would collide with 1 and 0.

    Raises:
        UsageError: a field has another type, or text has no UTF-8 form (a lone surrogate).
    """
    return b"".join((len(fields).to_bytes(4, "big"), *map(_field, fields)))


def digest(label: str, *fields: bytes | str | int) -> bytes:
    """Return the SHA-256 over :func:`encode` of ``("securefl/1", label, *fields)``: 32 bytes.

    ``label`` names the purpose (``"model"``, ``"config"``), so that equal fields hashed for two purposes have
    unrelated digests.
    """
    return hashlib.sha256(encode(_DOMAIN, label, *fields)).digest()


def digest_with(label: str, *fixed: bytes | str | int, more: int) -> Callable[..., bytes]:
    """Return a function f with ``f(*rest) == digest(label, *fixed, *rest)`` for ``more`` further fields.

    For thousands of digests with a common beginning, which is encoded and hashed once.

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
    # Exact type first: this runs tens of thousands of times in one large sum.
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


# Texts are few, and labels and names, never secrets: caching reveals nothing.
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
    # Two's complement needs a sign bit, and one bit less for -2^k than for 2^k, hence ~n.
    size = (((number if number >= 0 else ~number).bit_length() + 1) + 7) // 8
    return b"i" + size.to_bytes(_LENGTH_BYTES, "big") + number.to_bytes(size, "big", signed=True)


# A table for coordinates, not a cache: every round of a long run would add its number to a cache.
_SMALL = tuple(map(_encode_number, range(1024)))
