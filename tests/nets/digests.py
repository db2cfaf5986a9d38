"""Short digests of any value in the effects of machines, the same in every process and on every machine."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Set
from typing import Any

import msgspec
import numpy as np

SHORT = 6
"""Hexadecimal digits of one field's digest; the digest at the end of a trace pins all bits."""
_PLAIN = 200
"""Longest text that is printed as it is."""


@dataclasses.dataclass(frozen=True)
class Digester:
    """Digests of values."""

    digits: int | None = None
    """Significant digits of single floats that count; None for all bits."""
    arrays: bool = False
    """True if that holds for floats in arrays as well, whose bits count otherwise."""

    def text(self, value: object) -> str:
        """Return ``value`` itself if it is short and plain, else its digest."""
        if value is None or isinstance(value, bool | int):
            return str(value)
        if isinstance(value, float):
            return self._number(value)
        if isinstance(value, str) and len(value) <= _PLAIN:
            return "'" + value.replace(" ", "_") + "'"
        return self.digest(value)

    def digest(self, value: object, length: int = SHORT) -> str:
        """Return the SHA-256 of ``value``, shortened."""
        state = hashlib.sha256()
        for part in self._parts(value):
            state.update(len(part).to_bytes(8, "big") + part)
        return state.hexdigest()[:length]

    def fields(self, value: Any) -> Iterator[tuple[str, str]]:
        """Yield each field of a dataclass or struct with its text, in the order of the type."""
        for name in names_of(value):
            yield name, self.text(getattr(value, name))

    def _number(self, value: float) -> str:
        return repr(float(value)) if self.digits is None else f"{float(value):.{self.digits}g}"

    def _parts(self, value: Any) -> Iterator[bytes]:  # noqa: C901, PLR0912 - one branch for each type
        match value:
            case None | bool() | int() | str():
                yield f"{type(value).__name__}:{value}".encode()
            case float() | np.floating():
                yield f"float:{self._number(float(value))}".encode()
            case bytes() | bytearray() | memoryview():
                yield b"bytes:" + bytes(value)
            case np.integer() | np.bool_():
                yield f"int:{int(value)}".encode()
            case np.ndarray():
                yield f"array:{value.dtype.str}:{value.shape}".encode()
                if not self.arrays or value.dtype.kind != "f":
                    yield np.ascontiguousarray(value).tobytes()
                else:
                    yield " ".join(self._number(one) for one in value.ravel().tolist()).encode()
            case Mapping():
                yield f"map:{len(value)}".encode()
                for key, one in sorted((self.digest(key, 64), one) for key, one in value.items()):
                    yield key.encode()
                    yield from self._parts(one)
            case Set():
                yield f"set:{len(value)}".encode()
                yield from (one.encode() for one in sorted(self.digest(one, 64) for one in value))
            case _ if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value) or names_of(value):
                yield type(value).__name__.encode()
                for name in names_of(value):
                    yield name.encode()
                    yield from self._parts(getattr(value, name))
            case list() | tuple():
                yield f"row:{len(value)}".encode()
                for one in value:
                    yield from self._parts(one)
            case _:
                raise TypeError(f"a trace has no digest of {type(value).__name__}")


def names_of(value: object) -> tuple[str, ...]:
    """Return the names of the fields of a struct, dataclass or named tuple; () for other values."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value):
        names = tuple(field.name for field in dataclasses.fields(value))
        # A refusal without evidence reads as its culprit and its reason.
        return names if getattr(value, "evidence", True) else names[: names.index("evidence")]
    return getattr(value, "_fields", ())
