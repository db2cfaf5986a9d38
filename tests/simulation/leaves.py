"""All bytes that a process holds: a walk over objects that does not ask them to describe themselves."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterator, Mapping

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

SEPARATOR = b"\x00\xff" * 8


class Leaves:
    """The distinct byte strings below some objects; numbers in a row count as the arrays they could be."""

    def __init__(self) -> None:
        self.found: set[bytes] = set()

    def add(self, value: object) -> None:
        """Walk ``value``. An object that cannot be walked is an error: it might hide anything."""
        # Kept until the walk is over, so that no object takes the number of one that is gone.
        visited: dict[int, object] = {}
        stack = [value]
        while stack:
            item = stack.pop()
            leaf = _bytes_of(item)
            if leaf is not None:
                self.found.add(leaf)
            elif id(item) not in visited:
                visited[id(item)] = item
                stack += self._below(item)

    def haystack(self) -> bytes:
        """Everything found, in one string to search."""
        return SEPARATOR.join(sorted(self.found))

    def _below(self, value: object) -> Collection[object]:
        if isinstance(value, Mapping):
            return [*value.keys(), *value.values()]
        if isinstance(value, tuple | list | set | frozenset):
            if len(value) >= 4 and all(isinstance(v, int | float) for v in value):
                row = np.array(list(value))
                self.found.update(row.astype(word).tobytes() for word in ("<u4", "<i8", "<f4", "<f8"))
            return value
        fields = list(_fields(value))
        if not fields and not dataclasses.is_dataclass(value) and not isinstance(value, msgspec.Struct):
            raise AssertionError(f"{type(value)} cannot be walked")
        return fields


def _bytes_of(value: object) -> bytes | None:
    """The bytes of what holds nothing else; a single number or flag counts as none."""
    match value:
        case bytes() | bytearray() | memoryview():
            found = bytes(value)
        case str():
            found = value.encode()
        case np.ndarray():
            found = value.tobytes()
        case Ed25519PublicKey() | X25519PublicKey():
            found = value.public_bytes_raw()
        case Ed25519PrivateKey() | X25519PrivateKey():
            found = value.private_bytes_raw()
        case None | bool() | int() | float() | enum.Enum() | type():
            found = b""
        case _:
            return None
    return found


def _fields(value: object) -> Iterator[object]:
    if callable(value) and hasattr(value, "__closure__"):
        yield from (cell.cell_contents for cell in value.__closure__ or ())
        return
    yield from getattr(value, "__dict__", {}).values()
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield getattr(value, name)
    if isinstance(value, msgspec.Struct):
        yield from (getattr(value, name) for name in value.__struct_fields__)
