"""A member's secrets, split among the members: who gets what, and what pins it (protocol.md, steps 3, 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from securefl.base.crypto import merkle_paths, merkle_root, merkle_verify, split
from securefl.base.entropy import Entropy
from securefl.protocol.messages import SharePair
from securefl.protocol.secure_sum.setup import Setup, share_kinds, share_leaf


@dataclass(frozen=True, slots=True)
class DealtShares:
    """One member's secrets as shares."""

    shares: tuple[SharePair, ...] = field(repr=False)
    """By holder."""
    digests: tuple[tuple[bytes, ...], ...]
    """By holder, of each share, in the order of :func:`securefl.protocol.secure_sum.setup.share_kinds`."""
    root: bytes
    """Of the hash tree over the digests: pins them all."""


def deal(setup: Setup, owner: int, secrets: Sequence[bytes], entropy: Entropy) -> DealtShares:
    """Split secrets of 32 bytes (seed, mask key, noise secrets) for any ``setup.threshold`` members."""
    kinds, count = share_kinds(setup.components), len(setup.members)
    by_kind = [
        split(secret, setup.threshold, count, entropy.child(f"{kind} shares"))
        for kind, secret in zip(kinds, secrets, strict=True)
    ]
    digest = setup.share_digester()
    digests = tuple(
        tuple(digest(owner, holder, kind, of[holder]) for kind, of in zip(kinds, by_kind, strict=True))
        for holder in range(count)
    )
    leaves = [share_leaf(*each) for each in digests]
    shares = tuple(
        SharePair(seed_share=seed, key_share=key, path=path, noise_shares=tuple(noise))
        for (seed, key, *noise), path in zip(zip(*by_kind, strict=True), merkle_paths(leaves), strict=True)
    )
    return DealtShares(shares, digests, merkle_root(leaves))


def is_dealt(
    setup: Setup,
    owner: int,
    holder: int,
    pair: SharePair,
    root: bytes,
    digest: Callable[[int, int, str, bytes], bytes],
) -> bool:
    """Whether ``pair`` holds the shares that ``owner`` has pinned by ``root`` for ``holder``.

    ``digest`` is ``setup.share_digester()``, made once for many.
    """
    kinds = share_kinds(setup.components)
    shares = (pair.seed_share, pair.key_share, *pair.noise_shares)
    if len(shares) != len(kinds):
        return False
    leaf = share_leaf(
        *(digest(owner, holder, kind, share) for kind, share in zip(kinds, shares, strict=True))
    )
    return merkle_verify(root, leaf, holder, len(setup.members), pair.path)
