"""Shares of zero over the complete graph, which hide a member's words from coalitions without the others.

For each sharing, each pair of members takes the next stream of its key: the lower number adds it, the higher
subtracts it, or both XOR it. A member's share is uniform to any coalition that excludes one other member.
With CrypTen's own shares, between neighbours of a ring, the two neighbours could remove it.

Source: Araki et al. 2016, section 3.2 ("pseudo-random secret sharing"), with all pairs instead of neighbours.
"""

from collections.abc import Mapping

import numpy as np

from securefl.base import crypto
from securefl.base.arrays import U64
from securefl.base.errors import UsageError


class ZeroShares:
    """Successive shares of zero of one member in one attempt.

    All members must take sharings of one kind and length in one order. Another order gives noise, never a
    reused stream.
    """

    def __init__(self, me: int, keys: Mapping[int, bytes]) -> None:
        """Prepare for member ``me``; ``keys`` are the pairwise keys, 32 bytes, by the other's number.

        Raises:
            UsageError: no other member, or the member itself among the others.
        """
        if not keys or me in keys:
            raise UsageError(
                f"keys must have at least 1 other member, and none of member {me} itself; found members"
                f" {sorted(keys)}"
            )
        self._me = me
        self._keys = dict(keys)
        self._taken = 0

    def __repr__(self) -> str:
        return f"ZeroShares(member {self._me} of {len(self._keys) + 1}, {self._taken} taken)"

    def arithmetic(self, words: int) -> U64:
        """Return the next share, u64 ``(words,)``; all members' shares sum to zero modulo 2^64."""
        share = np.zeros(words, dtype=np.uint64)
        signs: dict[int, crypto.Sign] = {other: 1 if self._me < other else -1 for other in self._keys}
        streams = self._streams("arithmetic", words)
        crypto.add_masks(share, [(stream, signs[other]) for other, stream in streams.items()])
        return share

    def binary(self, words: int) -> U64:
        """Return the next share, u64 ``(words,)``; the XOR of all members' shares is zero."""
        share = np.zeros(words, dtype=np.uint64)
        for stream in self._streams("binary", words).values():
            share ^= crypto.expand(stream, words, np.uint64)
        return share

    def _streams(self, kind: str, words: int) -> dict[int, bytes]:
        self._taken += 1
        context = crypto.encode(kind, self._taken, words)
        return {other: crypto.derive_key(key, "share of zero", context) for other, key in self._keys.items()}
