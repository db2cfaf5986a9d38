"""Bounds check of a shared vector of projections: one bit, opened to evaluators (ADR 0024, step 8).

The words p_1 + B, ..., p_n + B and T - (p_1^2 + ... + p_n^2) are converted together from additive to XOR
shares. A projection is in [-2^b, 2^b) exactly if no bit of p + 2^b from b + 1 upwards is set. The sum is
small exactly if the sign bit of the difference is not set. All these bits, inverted, enter one tree of ANDs.
Besides the bit, only masked words are opened: differences between factors and dealt tuples.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from securefl.base.arrays import U64, expect
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.methods import privacy
from securefl.protocol.secure_sum.crypten.library import Library, load
from securefl.protocol.secure_sum.crypten.session import Session
from securefl.protocol.secure_sum.crypten.world import World
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares
from securefl.protocol.secure_sum.validated.dealing import Tuples


class DealtProvider:
    """CrypTen tuple provider of one computation: squares and ANDs, each used once."""

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
        """Return shares of random a and b and of a & b; raise as :meth:`square`, or if the shapes differ."""
        if tuple(size0) != tuple(size1):
            raise UsageError(
                f"the factors of a triple must have one shape, found {tuple(size0)} and {tuple(size1)}"
            )
        parts = self._taking.take("and", tuple(size0))
        # Precision 0: all words are integers.
        a, b, c = (self._library.binary.from_shares(self._tensor(p, device), precision=0) for p in parts)
        return a, b, c

    def __getattr__(self, name: str) -> NoReturn:
        raise UsageError(
            f"cannot compute with CrypTen: it asks the dealer for {name}, which the dealer of checks"
            " does not deal"
        )

    def _tensor(self, words: U64, device: Any) -> Any:
        tensor = self._library.torch.from_numpy(words.view(np.int64))
        return tensor if device is None else tensor.to(device)


class CryptenChecks:
    """Checks of updates by CrypTen, on the CPU since they are small."""

    def check(
        self,
        members: Sequence[PartyId],
        rank: int,
        zeros: ZeroShares,
        projections: U64,
        test: privacy.NormTest,
        tuples: Tuples,
    ) -> Session[bool]:
        """See :class:`securefl.protocol.secure_sum.validated.phases.UpdateChecks`."""
        return check_session(World(members, rank, zeros), projections, test, tuples)


def check_session(world: World, projections: U64, test: privacy.NormTest, tuples: Tuples) -> Session[bool]:
    """Return one evaluator's check, which is True if the owner's update passes.

    ``projections``, u64 ``(n,)``, are of this evaluator's share. ``world`` has the evaluators, with pairwise
    zero shares of this check.

    Raises:
        UsageError: the number of projections differs from the test's.
        ConfigError: CrypTen is missing.
    """
    expect(projections, "projections", np.uint64, (test.projections,))
    provider = DealtProvider(load(), tuples)
    own = World(world.members, world.rank, world.zeros, provider, world.device)
    return Session(own, partial(within, projections=projections, test=test, rank=world.rank))


def within(library: Library, projections: U64, test: privacy.NormTest, rank: int) -> bool:
    """Compute the check with CrypTen's globals of one evaluator installed.

    Raises:
        PeerError: the opened value is not a bit: an evaluator deviated.
    """
    torch, arithmetic, binary = library.torch, library.arithmetic, library.binary
    share = arithmetic.from_shares(torch.from_numpy(projections.view(np.int64).copy()), precision=0)
    # The tensor's own ``square`` divides by a scale of 1 among three or more members, which costs wrap
    # counts.
    total = library.mpc.primitives.beaver.square(share).share.sum()
    words = torch.cat([share.share, -total.view(1)])
    if rank == 0:
        words[:-1] += 1 << test.range_bits
        words[-1] += test.threshold
    masks = torch.full_like(words, -(1 << (test.range_bits + 1)))
    masks[-1] = -(2**63)
    bits = _to_binary(library, arithmetic.from_shares(words, precision=0))
    good = ~(bits & masks)
    while len(good.share) > 1:
        half = len(good.share) // 2
        joined = _part(binary, good, 0, half) & _part(binary, good, half, 2 * half)
        joined.share = torch.cat([joined.share, good.share[2 * half :]])
        good = joined
    for shift in (32, 16, 8, 4, 2, 1):
        good = good & (good << shift)
    top = binary.from_shares((good.share >> 63) & 1, precision=0)
    opened = int(top.reveal()[0])
    if opened not in {0, 1}:
        raise PeerError("an evaluator", "its share of the result of a check does not open to a bit")
    return bool(opened)


def check_zeros(pair_keys: Mapping[int, bytes], evaluators: Sequence[int], me: int) -> ZeroShares:
    """Return one evaluator's shares of zero among the evaluators (member numbers, by rank).

    ``pair_keys`` are 32 bytes by member number, for this check only.
    """
    ranks = {member: rank for rank, member in enumerate(evaluators)}
    return ZeroShares(ranks[me], {ranks[other]: pair_keys[other] for other in evaluators if other != me})


def _to_binary(library: Library, words: Any) -> Any:
    return library.mpc.primitives.converters.convert(words, library.mpc.ptype.binary)


def _part(binary: Any, words: Any, start: int, stop: int) -> Any:
    return binary.from_shares(words.share[start:stop].clone(), precision=0)
