"""Base of all messages: immutable, fixed fields, a limit on every length.

Vectors, shares and ciphertexts are raw bytes. ``repr`` prints their sizes only: some are sensitive.
"""

from typing import Annotated

from msgspec import Meta, Struct

from securefl.base.ids import NAME

MAX_PARTIES = 100_000
MAX_CLUSTER = 1_024
MAX_FRAME = 512 * 1024
"""Largest frame in bytes; larger messages are split (architecture.md, section 6)."""
MAX_VECTOR = 8 * 64 * 1024 * 1024
"""Largest vector in bytes: 64 Mi coordinates in the ring of 64 bits."""

Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Key = Annotated[bytes, Meta(min_length=32, max_length=32)]
Name = Annotated[str, Meta(pattern=rf"^(?!(?:all|server)\Z)(?:{NAME.pattern})\Z")]
"""Name of a party (:func:`securefl.base.ids.is_name`). ``$`` would admit a final line break."""
SignedFrame = Annotated[bytes, Meta(min_length=64, max_length=MAX_FRAME)]
"""Frame relayed by the server exactly as its sender signed it."""
Signature = Annotated[bytes, Meta(min_length=64, max_length=64)]
"""Ed25519 signature."""
Share = Annotated[bytes, Meta(min_length=33, max_length=33)]
"""Shamir share of a 32-byte secret (:mod:`securefl.base.crypto.shamir`)."""
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
        """Return the name and the sizes of fields, never contents."""
        fields = ", ".join(f"{name}={_size(getattr(self, name))}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({fields})"


def _size(value: object) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, tuple):
        return f"{len(value)} items"
    return repr(value)
