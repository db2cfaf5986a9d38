"""The store of masked inputs at the server between arrival and freeze: a port, and its simple form."""

from __future__ import annotations

from typing import Protocol


class VectorStore(Protocol):
    """Keeps wire vectors under handles. Masked inputs are uniform bytes: storing them discloses nothing."""

    def put(self, vector: bytes) -> int:
        """Keep ``vector`` and return its handle."""
        ...

    def get(self, handle: int) -> bytes | memoryview:
        """Return the vector of ``handle``."""
        ...

    def discard_all(self) -> None:
        """Forget everything: the round is over."""
        ...


class MemoryStore:
    """A ``VectorStore`` in memory."""

    def __init__(self) -> None:
        self._vectors: dict[int, bytes] = {}
        self._next = 0

    def put(self, vector: bytes) -> int:
        """Keep ``vector`` and return its handle."""
        self._next += 1
        self._vectors[self._next] = vector
        return self._next

    def get(self, handle: int) -> bytes:
        """Return the vector of ``handle``."""
        return self._vectors[handle]

    def discard_all(self) -> None:
        """Forget everything."""
        self._vectors.clear()
