"""Secret randomness from the operating system or, in tests only, from a seed.

Keys, masks, shares, nonces, noise and stochastic rounding draw from an ``Entropy`` that the core receives as
an argument. ``child`` names the purpose of the bytes. The operating system's generator ignores the name. With
seeded entropy the name makes each draw independent of the order of the others, so a run over a network and a
simulation draw the same values.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

from securefl.base.errors import UsageError


class Entropy(Protocol):
    """A source of uniformly random bytes."""

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
        """Return this source; the operating system needs no names."""
        return self

    def draw(self, size: int) -> bytes:
        """Return ``size`` bytes from the operating system."""
        return os.urandom(size)


class InsecureSeededEntropy:
    """Reproducible bytes for tests, replay and simulation. INSECURE: the seed predicts all of them.

    The stream of a child is SHAKE-256 over (domain, path of labels, counter). Paths are length-prefixed, so
    ``child("ab", "c")`` and ``child("a", "bc")`` differ.
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
        """Return the source named by this path and ``labels``; equal names give equal streams."""
        node = hashlib.sha256(self._path)
        for label in labels:
            raw = f"{type(label).__name__}:{label}".encode()
            node.update(len(raw).to_bytes(4, "big") + raw)
        child = InsecureSeededEntropy.__new__(InsecureSeededEntropy)
        child._path, child._calls = node.digest(), 0
        return child

    def draw(self, size: int) -> bytes:
        """Return the next ``size`` bytes of this source's stream."""
        self._calls += 1
        return hashlib.shake_256(self._path + self._calls.to_bytes(8, "big")).digest(size)
