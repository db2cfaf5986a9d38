"""Shares of zero over the complete graph, which hide a member's words from coalitions without the others.

Each two members share a key (X25519 and HKDF, bound to the attempt). For a sharing of zero, each pair takes
the next stream of its key; the lower number adds it, the higher subtracts it, or both take the exclusive or.
What a member holds is uniform to everybody who lacks one of its pairwise keys, that is to any coalition that
leaves out one other member. CrypTen's own shares of zero go between neighbours of a ring: there a member's
two neighbours suffice.

Source: the generator of the zero sharing is Araki et al. 2016, section 3.2 ("pseudo-random secret sharing"),
with every pair in place of neighbours.
"""

from collections.abc import Mapping

import numpy as np

from securefl.base import crypto
from securefl.base.arrays import U64
from securefl.base.errors import UsageError


class ZeroShares:
    """One member's shares of zero in one attempt, one sharing after the other.

    All members have to take the same sharings, of the same kind and length, in the same order: a sharing's
    number, kind and length are part of the derivation, so that another order gives words that add up to
    noise, never a stream used twice.
    """

    def __init__(self, me: int, keys: Mapping[int, bytes]) -> None:
        """Prepare for member ``me``; ``keys`` are the pairwise keys, 32 bytes, by the other's number.

        Raises:
            UsageError: nobody else, or the member itself among the others.
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
        """Take the next sharing: u64 ``(words,)``; all members' add up to zero modulo 2^64."""
        share = np.zeros(words, dtype=np.uint64)
        signs: dict[int, crypto.Sign] = {other: 1 if self._me < other else -1 for other in self._keys}
        streams = self._streams("arithmetic", words)
        crypto.add_masks(share, [(stream, signs[other]) for other, stream in streams.items()])
        return share

    def binary(self, words: int) -> U64:
        """Take the next sharing: u64 ``(words,)``; the exclusive or of all members' is zero."""
        share = np.zeros(words, dtype=np.uint64)
        for stream in self._streams("binary", words).values():
            share ^= crypto.expand(stream, words, np.uint64)
        return share

    def _streams(self, kind: str, words: int) -> dict[int, bytes]:
        self._taken += 1
        context = crypto.encode(kind, self._taken, words)
        return {other: crypto.derive_key(key, "share of zero", context) for other, key in self._keys.items()}
