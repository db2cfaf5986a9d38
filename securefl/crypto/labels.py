"""One unambiguous encoding of mixed fields, for all that is hashed, bound to a key or used as context.

Plain concatenation lets two lists of fields meet in the same bytes (``"ab" + "c"``, ``"a" + "bc"``). Here
each field carries its type and its length, so the encoding is injective, and no encoding is a proper prefix
of another, since the number of fields comes first.
"""

from __future__ import annotations

import hashlib

from securefl.errors import UsageError

_DOMAIN = "securefl/1"
_LENGTH_BYTES = 8


def encode(*fields: bytes | str | int) -> bytes:
    """``fields`` as bytes that no other list of fields has.

    Layout: the number of fields (4 bytes), then per field a type byte (``b``, ``s`` or ``i``), its length
    (8 bytes) and its content: the bytes, the text in UTF-8, or the integer in the shortest two's complement.
    All numbers are big-endian. ``True`` and ``False`` are refused: they would collide with 1 and 0.

    Raises:
        UsageError: a field is of another type, or text has no UTF-8 form (a lone surrogate).
    """
    parts = [len(fields).to_bytes(4, "big")]
    for field in fields:
        tag, raw = _content(field)
        parts += (tag, len(raw).to_bytes(_LENGTH_BYTES, "big"), raw)
    return b"".join(parts)


def digest(label: str, *fields: bytes | str | int) -> bytes:
    """SHA-256 over :func:`encode` of ``("securefl/1", label, *fields)``: 32 bytes.

    ``label`` names the purpose (``"model"``, ``"config"``), so that equal fields hashed for two purposes
    give unrelated digests.
    """
    return hashlib.sha256(encode(_DOMAIN, label, *fields)).digest()


def _content(field: bytes | str | int) -> tuple[bytes, bytes]:
    if isinstance(field, bytes):
        return b"b", field
    if isinstance(field, str):
        try:
            return b"s", field.encode()
        except UnicodeEncodeError as error:
            raise UsageError("a labelled text field has no UTF-8 form") from error
    if isinstance(field, int) and not isinstance(field, bool):
        # Two's complement needs a sign bit on top, and one bit less for -2^k than for 2^k, hence ~n.
        bits = (field if field >= 0 else ~field).bit_length() + 1
        return b"i", field.to_bytes((bits + 7) // 8, "big", signed=True)
    raise UsageError(f"a labelled field is bytes, str or int, not {type(field).__name__}")
