"""Base of all messages: immutable, fixed fields, a limit on every length."""

from typing import Annotated

from msgspec import Meta, Struct

from securefl.base.ids import NAME

MAX_PARTIES = 100_000
MAX_CLUSTER = 1_024
MAX_FRAME = 512 * 1024
"""Bytes; larger messages are split."""
MAX_VECTOR = 8 * 64 * 1024 * 1024
"""Bytes: 64 Mi coordinates of 64 bits."""

Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Key = Annotated[bytes, Meta(min_length=32, max_length=32)]
Name = Annotated[str, Meta(pattern=rf"^(?!(?:all|server)\Z)(?:{NAME.pattern})\Z")]
"""Name of a party. ``$`` would admit a final line break."""
SignedFrame = Annotated[bytes, Meta(min_length=64, max_length=MAX_FRAME)]
"""Frame that the server relays unchanged."""
Signature = Annotated[bytes, Meta(min_length=64, max_length=64)]
Share = Annotated[bytes, Meta(min_length=33, max_length=33)]
Box = Annotated[bytes, Meta(min_length=28, max_length=4_096)]


class Message(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    array_like=True,
    tag=lambda name: name,
):
    """Base of all messages."""

    def __repr__(self) -> str:
        """Return the name and the sizes of fields: contents may be secret."""
        fields = ", ".join(f"{name}={_size(getattr(self, name))}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({fields})"


def _size(value: object) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, tuple):
        return f"{len(value)} items"
    return repr(value)
