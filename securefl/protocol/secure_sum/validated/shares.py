"""Additive shares of an update for the other members of its cluster (ADR 0024, steps 4 and 11).

The owner keeps none. All shares but one are streams of 32-byte seeds. The words of any m - 2 of the m - 1
holders are uniform and independent of the update.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from securefl.base.arrays import U64, expect
from securefl.base.crypto import KEY_BYTES, Sign, add_masks, derive_key, digest, expand
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError, UsageError
from securefl.methods import encoding

LEAST_MEMBERS = 3
"""An update is shared among at least two others."""


@dataclass(frozen=True, slots=True)
class UpdateShare:
    """One holder's share of an update: either a seed or the words."""

    seed: bytes = field(default=b"", repr=False)
    words: bytes = field(default=b"", repr=False)

    def digest(self, context: bytes) -> bytes:
        """Return the digest of this share (32 bytes); ``context`` names attempt, owner and holder."""
        return digest("update share", context, self.seed, self.words)


def others_of(owner: int, members: Sequence[int]) -> list[int]:
    """Return the members without ``owner``, starting after it: each is first, and gets the words, once."""
    place = members.index(owner)
    return [*members[place + 1 :], *members[:place]]


def share_context(keys_context: bytes, owner: int, holder: int) -> bytes:
    """Return the context of one share."""
    return digest("update share context", keys_context, owner, holder)


def split(
    update: U64, owner: int, members: Sequence[int], keys_context: bytes, entropy: Entropy
) -> dict[int, UpdateShare]:
    """Return shares of ``update`` (u64 ``(d,)``, not changed) for the other ``members``, by holder.

    Raises:
        UsageError: fewer than 3 members, the owner is not one, or another dtype or shape.
    """
    expect(update, "update", np.uint64, (None,))
    if len(members) < LEAST_MEMBERS or owner not in members:
        raise UsageError(
            f"members must be at least {LEAST_MEMBERS} and have the owner {owner} to share its update,"
            f" found {len(members)}"
        )
    first, *rest = others_of(owner, members)
    seeds = {holder: entropy.child("update share", holder).draw(KEY_BYTES) for holder in rest}
    words = update.copy()
    minus: Sign = -1
    add_masks(words, [(_key(seed, keys_context, owner, h), minus) for h, seed in seeds.items()])
    return {first: UpdateShare(words=encoding.to_wire(words))} | {
        h: UpdateShare(seed=s) for h, s in seeds.items()
    }


def words_of(
    share: UpdateShare, length: int, keys_context: bytes, owner: int, holder: int, culprit: str
) -> U64:
    """Return the words of a peer's share: u64 ``(length,)``.

    Raises:
        PeerError: neither a seed nor ``length`` words, or both.
    """
    if bool(share.seed) == bool(share.words) or len(share.seed) not in (0, KEY_BYTES):
        raise PeerError(culprit, "sends a share with both a seed and a vector, or neither")
    if share.words:
        words = encoding.from_wire(share.words, length, 64, culprit)
        expect(words, "words", np.uint64, (length,))
        return words.view(np.uint64)
    return expand(_key(share.seed, keys_context, owner, holder), length, np.uint64)


def release_share(held: Mapping[int, U64], accepted: Collection[int], zero: U64) -> U64:
    """Return the sum of ``held`` shares of accepted updates (u64 ``(d,)``, by owner), plus ``zero``.

    ``zero``, u64 ``(d,)``, is the own share of zero over the complete graph of *all* members. Without it, one
    member and the server would open an update (ADR 0024).
    """
    total = zero.copy()
    for owner in sorted(held):
        if owner in accepted:
            total += held[owner]
    return total


def _key(seed: bytes, keys_context: bytes, owner: int, holder: int) -> bytes:
    return derive_key(seed, "update share", share_context(keys_context, owner, holder))
