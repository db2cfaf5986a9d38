"""Canonical MessagePack: messages that do not re-encode to the same bytes are rejected.

Receivers that hash a relayed list so agree about its contents.
"""

from typing import TypeVar

import msgspec

from securefl.base.errors import PeerError
from securefl.protocol import messages

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder: msgspec.msgpack.Decoder[messages.AnyMessage] = msgspec.msgpack.Decoder(messages.AnyMessage)

StructT = TypeVar("StructT", bound=msgspec.Struct)

_LONGEST_REASON = 200
_BULK = 2**16
"""Length from which MessagePack encodes bytes as bin 32."""
_BIN_32, _EMPTY_BIN = b"\xc6", b"\xc4\x00"


def encode(message: msgspec.Struct) -> bytes:
    """Return the canonical encoding."""
    return _encoder.encode(message)


def decode(raw: bytes, culprit: str) -> messages.AnyMessage:
    """Decode a message sent by ``culprit``.

    Raises:
        PeerError: unknown message, length or range out of bounds, or non-canonical encoding.
    """
    try:
        message = _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(culprit, f"malformed message: {quote_error(error)}") from error
    if not _is_canonical(message, raw):
        raise PeerError(culprit, f"{type(message).__name__} is not in its canonical encoding")
    return message


def decode_struct(kind: type[StructT], raw: bytes, culprit: str) -> StructT:
    """Decode a struct such as the plaintext of a box; raise as :func:`decode`."""
    try:
        value = msgspec.msgpack.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(culprit, f"malformed {kind.__name__}: {quote_error(error)}") from error
    if _encoder.encode(value) != raw:
        raise PeerError(culprit, f"{kind.__name__} is not in its canonical encoding")
    return value


def _is_canonical(message: msgspec.Struct, raw: bytes) -> bool:
    last = message.__struct_fields__[-1] if message.__struct_fields__ else ""
    bulk = getattr(message, last, None)
    if not isinstance(bulk, bytes) or len(bulk) < _BULK:
        return _encoder.encode(message) == raw
    # Do not encode a long last field again: a canonical prefix up to its length, and that many bytes,
    # suffice.
    hollow = _encoder.encode(msgspec.structs.replace(message, **{last: b""}))
    start = hollow[: -len(_EMPTY_BIN)] + _BIN_32 + len(bulk).to_bytes(4, "big")
    return raw.startswith(start) and len(raw) == len(start) + len(bulk)


def quote_error(error: Exception) -> str:
    """Return a decoder's message, which may quote the peer's bytes, as a short printable line."""
    return ascii(str(error)[:_LONGEST_REASON])[1:-1][:_LONGEST_REASON]
