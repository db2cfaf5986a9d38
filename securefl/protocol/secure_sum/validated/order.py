"""The coordinate-wise median or trimmed mean of a cluster's own updates, under CrypTen: for small d.

All members hold additive shares of all vectors. The values go to XOR shares once, then through a sorting
network of compare-and-swaps (odd-even transposition: m layers for m members), and what is left in the middle
is added up and opened. Nobody sees a single value, nor who had it. One lying member moves each coordinate no
further than to another member's value, inside a single cluster, where no rule on cluster means can help.

The price is m (m - 1) / 2 comparisons of 64-bit words for each coordinate; :func:`order_cost` counts it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from securefl.base.arrays import I64, U64, expect
from securefl.base.errors import UsageError
from securefl.protocol.secure_sum.crypten.library import Library, load
from securefl.protocol.secure_sum.crypten.session import Session
from securefl.protocol.secure_sum.crypten.world import World
from securefl.protocol.secure_sum.validated.dealing import Request, Tuples, addition_requests
from securefl.protocol.secure_sum.validated.provider import DealtProvider


@dataclass(frozen=True, slots=True)
class OrderCost:
    """What one call takes, from its sizes alone."""

    rounds: int
    """Times that everybody waits for everybody."""
    words_sent: int
    """64-bit words from each member to each other one."""
    words_dealt: int
    """64-bit words from the dealer to the first member; the others get a seed."""


def median_trim(members: int) -> int:
    """Values cut at either end so that one (odd m) or two (even m) are left: the median."""
    return (members - 1) // 2


def order_requests(members: int, length: int, trim: int) -> tuple[Request, ...]:
    """What the dealer deals for one call, in order.

    Raises:
        UsageError: fewer than 3 members, or nothing left after cutting ``trim`` at either end.
    """
    _check(members, trim)
    requests = list(addition_requests(members, (members * length,)))
    for layer in range(members):
        pairs = len(_pairs(members, layer))
        if pairs:
            shape = (pairs, length)
            requests += [Request("and", shape), *[Request("and", (2, *shape))] * 6, Request("and", shape)]
    return (*requests, *addition_requests(members - 2 * trim, (length,)))


def order_cost(members: int, length: int, trim: int) -> OrderCost:
    """The cost of one call: each AND opens two words for each that it makes, in one round."""
    requests = order_requests(members, length, trim)
    words = sum(request.size for request in requests)
    return OrderCost(len(requests) + 1, 2 * words + length, words)


def order_session(world: World, shares: U64, trim: int, tuples: Tuples) -> Session[I64]:
    """One member's part; its result is the sum of the middle values, i64 ``(d,)``, the same at all members.

    Divided by m - 2 ``trim`` it is the trimmed mean; with ``trim`` from :func:`median_trim` the median. The
    sum wraps where the middle values themselves are near 2^63.

    Args:
        world: all members, with shares of zero; its provider is replaced.
        shares: this member's share of everybody's vector, u64 ``(m, d)``; a vector's values are its words
            read as signed.
        trim: values cut at either end.
        tuples: what the dealer dealt this member for ``order_requests(m, d, trim)``.

    Raises:
        UsageError: another shape, or see :func:`order_requests`.
        ConfigError: CrypTen is missing.
    """
    members = len(world.members)
    _check(members, trim)
    expect(shares, "shares", np.uint64, (members, None))
    own = World(world.members, world.rank, world.zeros, DealtProvider(load(), tuples), world.device)
    return Session(own, partial(middle_sum, shares=shares, trim=trim))


def middle_sum(library: Library, shares: U64, trim: int) -> I64:
    """The program itself: runs with CrypTen's globals of one member in place."""
    torch, binary = library.torch, library.binary
    members, length = shares.shape
    flat = torch.from_numpy(shares.view(np.int64).reshape(-1).copy())
    words = library.arithmetic.from_shares(flat, precision=0)
    bits = library.mpc.primitives.converters.convert(words, library.mpc.ptype.binary)
    rows = bits.share.reshape(members, length)
    for layer in range(members):
        pairs = _pairs(members, layer)
        if pairs:
            upper = torch.tensor([low for low, _ in pairs])
            lower = torch.tensor([high for _, high in pairs])
            rows[upper], rows[lower] = _sorted_pair(binary, rows[upper], rows[lower])
    middle = binary.from_shares(rows[trim : members - trim].clone(), precision=0)
    total = middle.sum(dim=0) if members - 2 * trim > 1 else middle
    opened: I64 = total.reveal().reshape(-1).numpy().astype(np.int64)
    return opened


def _sorted_pair(binary: Any, one: Any, other: Any) -> tuple[Any, Any]:
    """XOR shares of the smaller and of the larger values."""
    x = binary.from_shares(one.clone(), precision=0)
    y = binary.from_shares(other.clone(), precision=0)
    less = x < y
    # One bit in all 64 places: negation does it in two's complement, share by share.
    everywhere = binary.from_shares(-(less.share & 1), precision=0)
    swapped = everywhere & (x ^ y)
    return (y ^ swapped).share, (x ^ swapped).share


def _pairs(members: int, layer: int) -> list[tuple[int, int]]:
    return [(low, low + 1) for low in range(layer % 2, members - 1, 2)]


def _check(members: int, trim: int) -> None:
    if members < 3:
        raise UsageError(f"a median inside a cluster takes 3 members or more, not {members}")
    if not 0 <= 2 * trim < members:
        raise UsageError(f"cutting {trim} at either end leaves nothing of {members} values")
