"""Secret randomness: from the operating system, or (tests only) from a seed.

Keys, masks, shares, nonces, noise and stochastic rounding all draw from an ``Entropy``. The core receives it
as an argument and never reaches for a generator of its own. ``child`` names what the bytes are for; with the
operating system's generator the name has no effect, with seeded entropy it makes each draw independent of the
order in which the others happen, so that a run over a network and a simulation draw the same values.
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
        """Whether anybody who knows a seed can predict the output."""
        ...

    def child(self, *labels: str | int) -> Entropy:
        """A source for one named purpose."""
        ...

    def draw(self, size: int) -> bytes:
        """``size`` fresh bytes. Two calls never return the same bytes on purpose."""
        ...


class OsEntropy:
    """The operating system's CSPRNG."""

    insecure = False

    def child(self, *_labels: str | int) -> OsEntropy:
        """Itself: the operating system needs no names."""
        return self

    def draw(self, size: int) -> bytes:
        """``size`` bytes from the operating system."""
        return os.urandom(size)


class InsecureSeededEntropy:
    """Reproducible bytes for tests, replay and simulation. INSECURE: whoever knows the seed knows everything.

    The stream of one child is SHAKE-256 over (domain, path of labels, counter); paths are length-prefixed, so
    ``child("ab", "c")`` and ``child("a", "bc")`` differ.
    """

    insecure = True

    def __init__(self, seed: int | bytes) -> None:
        if isinstance(seed, int):
            if not 0 <= seed < 2**64:
                raise UsageError(f"a seed lies in [0, 2^64), not {seed}")
            seed = seed.to_bytes(8, "big")
        self._path = hashlib.sha256(b"securefl/1/insecure-seeded-entropy" + seed).digest()
        self._calls = 0

    def __repr__(self) -> str:
        return "InsecureSeededEntropy(...)"

    def child(self, *labels: str | int) -> InsecureSeededEntropy:
        """The source named by this one's path and ``labels``; the same name always gives the same stream."""
        node = hashlib.sha256(self._path)
        for label in labels:
            raw = f"{type(label).__name__}:{label}".encode()
            node.update(len(raw).to_bytes(4, "big") + raw)
        child = InsecureSeededEntropy.__new__(InsecureSeededEntropy)
        child._path, child._calls = node.digest(), 0
        return child

    def draw(self, size: int) -> bytes:
        """The next ``size`` bytes of this source's stream."""
        self._calls += 1
        return hashlib.shake_256(self._path + self._calls.to_bytes(8, "big")).digest(size)
