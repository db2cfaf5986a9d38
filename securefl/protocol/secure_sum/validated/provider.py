"""CrypTen's port for correlated randomness, filled from what a dealer dealt (ADR 0024)."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from securefl.base.arrays import U64
from securefl.base.errors import UsageError
from securefl.protocol.secure_sum.crypten.library import Library
from securefl.protocol.secure_sum.validated.dealing import Tuples


class DealtProvider:
    """A CrypTen tuple provider for one member of one computation: squares and ANDs, each used once."""

    NAME = "securefl"

    def __init__(self, library: Library, tuples: Tuples) -> None:
        self._library = library
        self._taking = tuples.begin()

    def square(self, size: Any, device: Any = None) -> tuple[Any, Any]:
        """Return shares of random r and of r * r, of shape ``size``.

        Raises:
            UsageError: the dealt tuples are used up, or others come next.
        """
        r, squared = self._taking.take("square", tuple(size))
        arithmetic = self._library.arithmetic
        return (
            arithmetic.from_shares(self._tensor(r, device), precision=0),
            arithmetic.from_shares(self._tensor(squared, device), precision=0),
        )

    def generate_binary_triple(self, size0: Any, size1: Any, device: Any = None) -> tuple[Any, Any, Any]:
        """Return shares of random a and b and of a & b.

        Raises:
            UsageError: as :meth:`square`, or the two shapes differ.
        """
        if tuple(size0) != tuple(size1):
            raise UsageError(f"triples are dealt for equal shapes, not {tuple(size0)} and {tuple(size1)}")
        parts = self._taking.take("and", tuple(size0))
        # Precision 0, as all words here are integers.
        a, b, c = (self._library.binary.from_shares(self._tensor(p, device), precision=0) for p in parts)
        return a, b, c

    def __getattr__(self, name: str) -> NoReturn:
        raise UsageError(f"the dealer deals no {name}")

    def _tensor(self, words: U64, device: Any) -> Any:
        tensor = self._library.torch.from_numpy(words.view(np.int64))
        return tensor if device is None else tensor.to(device)
