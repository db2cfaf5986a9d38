"""Secret randomness from the operating system or, in tests only, from a seed.

The core receives an ``Entropy`` as an argument. With a seed, draws depend on the names of children, not on
their order: a run over a network and a simulation draw the same values.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

from securefl.base.errors import UsageError


class Entropy(Protocol):
    """Source of uniformly random bytes."""

    @property
    def insecure(self) -> bool:
        """True if the seed predicts the output."""
        ...

    def child(self, *labels: str | int) -> Entropy:
        """Return a source for one named purpose."""
        ...

    def draw(self, size: int) -> bytes:
        """Return ``size`` fresh bytes."""
        ...


class OsEntropy:
    """The operating system's CSPRNG."""

    insecure = False

    def child(self, *_labels: str | int) -> OsEntropy:
        """Return this source."""
        return self

    def draw(self, size: int) -> bytes:
        """Return ``size`` fresh bytes."""
        return os.urandom(size)


class InsecureSeededEntropy:
    """Reproducible bytes for tests, replay and simulation. INSECURE: the seed predicts them.

    A draw is SHAKE-256 over (hash of domain, seed and length-prefixed labels; counter).
    """

    insecure = True

    def __init__(self, seed: int | bytes) -> None:
        if isinstance(seed, int):
            if not 0 <= seed < 2**64:
                raise UsageError(f"seed must be at least 0 and below 2^64, found {seed}")
            seed = seed.to_bytes(8, "big")
        self._path = hashlib.sha256(b"securefl/1/insecure-seeded-entropy" + seed).digest()
        self._calls = 0

    def __repr__(self) -> str:
        return "InsecureSeededEntropy(...)"

    def child(self, *labels: str | int) -> InsecureSeededEntropy:
        """Return the source of this path and ``labels``; equal paths give equal streams."""
        node = hashlib.sha256(self._path)
        for label in labels:
            raw = f"{type(label).__name__}:{label}".encode()
            node.update(len(raw).to_bytes(4, "big") + raw)
        child = InsecureSeededEntropy.__new__(InsecureSeededEntropy)
        child._path, child._calls = node.digest(), 0
        return child

    def draw(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        self._calls += 1
        return hashlib.shake_256(self._path + self._calls.to_bytes(8, "big")).digest(size)
