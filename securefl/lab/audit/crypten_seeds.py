"""CrypTen's own shares of zero: a search for the seed that hides a member's words.

With ``mask_source = "crypten-insecure"`` a member's share is its words plus a stream of the seed that it has
from its predecessor on the ring, minus a stream of the seed that it gave its successor. The server sees the
share once the blind's seed is released. If the successor colludes, one seed is unknown, and torch's generator
on the CPU keeps 32 bits of it. The right one makes all words small at once, as updates are; so it is found by
trying, and the update with it.

The search here goes through a space of ``bits`` bits, for a computation whose seeds were drawn from it, and
says what the whole space would cost. Against shares of zero from pairwise keys the same search finds nothing:
there is no such seed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from securefl.base.arrays import I64, U64
from securefl.base.entropy import Entropy
from securefl.base.ids import PartyId
from securefl.protocol import secure_sum

EFFECTIVE_BITS: Final = 32
"""Of a seed of torch's generator on the CPU: seeds that are equal modulo 2^32 give one stream."""
VICTIM: Final = 1
"""Rank of the member that is attacked; its successor colludes with the server."""


@dataclass(frozen=True, slots=True)
class SeedSearch:
    """The outcome of trying all seeds of the reduced space."""

    bits: int
    found: tuple[int, ...]
    """Seeds under which all words of the victim's share become small."""
    recovered: I64 | None = field(repr=False)
    """What the share holds under the first of them, i64 (d,): the victim's encoded update."""
    seconds: float
    """Of processor time, for all seeds."""

    @property
    def whole_space_hours(self) -> float:
        """Hours of one processor that all seeds of :data:`EFFECTIVE_BITS` bits would take."""
        return self.seconds * 2.0 ** (EFFECTIVE_BITS - self.bits) / 3600


def attack_sum(
    inputs: Sequence[I64], bound: int, bits: int, source: secure_sum.MaskSource, entropy: Entropy
) -> SeedSearch:
    """Run one CrypTen sum with seeds of few bits, and search for the victim's.

    Args:
        inputs: every member's encoded update, i64 (d,), at least three members.
        bound: no honest word is larger in magnitude.
        bits: of the seeds that are drawn and tried.
        source: of the shares of zero.
        entropy: draws the seeds, or the pairwise keys.
    """
    size, length = len(inputs), inputs[0].size
    exported, known = _exported(inputs, bits, source, entropy)
    share = exported[VICTIM]
    began = time.process_time()
    # The successor takes off its part of what hides the victim.
    rest = share - known if source == "pairwise" else share + known
    found: list[int] = []
    recovered: I64 | None = None
    for seed in range(1 << bits):
        words = (rest - _stream(seed, size, length)).view(np.int64)
        if np.abs(words).max() <= bound:
            found.append(seed)
            recovered = words if recovered is None else recovered
    return SeedSearch(bits, tuple(found), recovered, time.process_time() - began)


def _stream(seed: int, size: int, length: int) -> U64:
    """The stream that a seed adds to a share: CrypTen takes one sharing of zero for each member's words."""
    torch: Any = secure_sum.load().torch
    generator = torch.Generator().manual_seed(seed)
    total = np.zeros(length, dtype=np.uint64)
    for _ in range(size):
        words = torch.randint(-(2**63), 2**63 - 1, (length,), generator=generator, dtype=torch.long)
        total += words.numpy().view(np.uint64)
    return total


def _exported(
    inputs: Sequence[I64], bits: int, source: secure_sum.MaskSource, entropy: Entropy
) -> tuple[list[U64], U64]:
    """Run the sum; return all exported shares, and what the victim's successor knows of the victim's."""
    size, length = len(inputs), inputs[0].size
    names = [PartyId(f"p{rank:02d}") for rank in range(size)]
    keys = [
        {
            other: entropy.child("pair", *sorted((rank, other))).draw(32)
            for other in range(size)
            if other != rank
        }
        for rank in range(size)
    ]
    seeds = [_FewBits(bits, entropy.child(rank)) for rank in range(size)]
    engine = secure_sum.CryptenEngine("cpu")
    members = [
        engine.share_of_sum(
            names,
            rank,
            secure_sum.ZeroShares(rank, keys[rank]) if source == "pairwise" else seeds[rank],
            words.view(np.uint64),
        )
        for rank, words in enumerate(inputs)
    ]
    inboxes: list[list[secure_sum.Incoming]] = [[] for _ in members]
    shares: dict[int, U64] = {}
    while len(shares) < size:
        for rank, session in enumerate(members):
            if rank in shares:
                continue
            incoming, inboxes[rank] = inboxes[rank], []
            progress = session.resume(incoming)
            for out in progress.outbound:
                inboxes[out.to].append(secure_sum.Incoming(rank, out.number, out.payload))
            if isinstance(progress, secure_sum.Done):
                shares[rank] = progress.result.astype(np.uint64, copy=False)
    successor = (VICTIM + 1) % size
    if source == "pairwise":
        own = secure_sum.ZeroShares(VICTIM, {successor: keys[VICTIM][successor]})
        known = np.zeros(length, dtype=np.uint64)
        for _ in range(size):
            known += own.arithmetic(length)
    else:
        known = _stream(seeds[VICTIM].given, size, length)
    return [shares[rank] for rank in range(size)], known


class _FewBits:
    """An entropy whose first eight bytes, as CrypTen reads them, are a seed below 2^bits."""

    insecure = True

    def __init__(self, bits: int, entropy: Entropy) -> None:
        self.given = int.from_bytes(entropy.draw(8), "big") % (1 << bits)
        """The seed that goes to the successor."""

    def child(self, *_labels: str | int) -> _FewBits:
        """Itself."""
        return self

    def draw(self, size: int) -> bytes:
        """The seed, as CrypTen's readers of eight bytes expect it."""
        return (self.given + 2**63).to_bytes(size, "big")
