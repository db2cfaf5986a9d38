"""Correlated randomness for checks, from the dealer to the members (ADR 0024, step 3).

In one check, each evaluator reads its words from the stream of a seed. The first also gets a correction, so
that:

- ``square``: r, s with the sum of all s equal to the square of the sum of all r, modulo 2^64;
- ``and``: a, b, c with XOR of all c equal to (XOR of all a) & (XOR of all b).

Source: Beaver 1991 (Efficient multiparty protocols using circuit randomization). Dealing by seeds follows
CrypTen's trusted third party, with AES-256-CTR instead of torch's generators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

import numpy as np

from securefl.base import crypto, sums
from securefl.base.arrays import U64
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import Instance, PartyId
from securefl.methods import encoding

Kind = Literal["square", "and"]
_PARTS = {"square": 2, "and": 3}


@dataclass(frozen=True, slots=True)
class Request:
    """One set of tuples needed by a check."""

    kind: Kind
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of words of each part."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Deal:
    """Words of one evaluator for one check."""

    seed: bytes = field(repr=False)
    correction: bytes = field(default=b"", repr=False)
    """Little-endian words for the first evaluator."""


def requests_of(evaluators: int, projections: int) -> tuple[Request, ...]:
    """Return the requests of a member's check in order (:mod:`securefl.protocol.secure_sum.validated.check`).

    They are: squares of the projections; for each of ceil(log2 k) levels of word additions, 1 + 6 ANDs (a
    carry tree over 64 bits); ANDs over the words by halves; ANDs over the bits of the last word.

    Raises:
        UsageError: fewer than two evaluators.
    """
    if evaluators < 2:
        raise UsageError(
            f"evaluators of a check must be at least 2, found {evaluators}; use clusters of 3 or more members"
        )
    words = projections + 1
    requests = [Request("square", (projections,)), *addition_requests(evaluators, (words,))]
    while words > 1:
        requests.append(Request("and", (words // 2,)))
        words -= words // 2
    return (*requests, *[Request("and", (1,))] * 6)


def addition_requests(terms: int, shape: tuple[int, ...]) -> tuple[Request, ...]:
    """Return CrypTen's requests for adding ``terms`` XOR-shared 64-bit words, ``shape`` sums at once."""
    requests: list[Request] = []
    while terms > 1:
        half = terms // 2
        requests.append(Request("and", (half, *shape)))
        requests += [Request("and", (2, half, *shape))] * 6
        terms -= half
    return tuple(requests)


def deal_context(
    instance: Instance, owner: PartyId, evaluators: Sequence[PartyId], projections: int
) -> bytes:
    """Return the context of the tuples of one check (32 bytes)."""
    return crypto.digest("deal", *instance, owner, projections, *evaluators)


def deal(context: bytes, evaluators: int, requests: Sequence[Request], entropy: Entropy) -> tuple[Deal, ...]:
    """Return the tuples of one check, by evaluator."""
    seeds = [entropy.child("tuples", rank).draw(crypto.KEY_BYTES) for rank in range(evaluators)]
    streams = [_Stream(seed, context, requests) for seed in seeds]
    differences: list[U64] = []
    for request in requests:
        parts = [stream.take(request) for stream in streams]
        if request.kind == "square":
            r, s = (_sum([part[place] for part in parts]) for place in range(2))
            differences.append(r * r - s)
        else:
            a, b, c = (_xor([part[place] for part in parts]) for place in range(3))
            differences.append((a & b) ^ c)
    correction = encoding.to_wire(np.concatenate(differences)) if differences else b""
    return (Deal(seeds[0], correction), *(Deal(seed) for seed in seeds[1:]))


class Tuples:
    """Tuples of one evaluator for one check, as an immutable value.

    Two different openings with them would disclose the hidden values: a check begins once, in the step that
    ends the phase.
    """

    def __init__(
        self, received: Deal, rank: int, context: bytes, requests: Sequence[Request], dealer: str
    ) -> None:
        """Read the dealer's words; raise PeerError for another amount than the check needs."""
        self._requests = tuple(requests)
        size = sums.exact_sum(request.size for request in requests) if rank == 0 else 0
        if len(received.seed) != crypto.KEY_BYTES or len(received.correction) != 8 * size:
            raise PeerError(
                dealer,
                f"sends {len(received.correction)} bytes of triples and a seed of {len(received.seed)} bytes,"
                f" expected {8 * size} and {crypto.KEY_BYTES}",
            )
        self._seed, self._context = received.seed, context
        self._correction = encoding.from_wire(received.correction, size, 64, dealer).view(np.uint64)

    def __repr__(self) -> str:
        return f"Tuples({len(self._requests)} requests)"

    def begin(self) -> Taking:
        """Expand the tuples, to be taken in order."""
        return Taking(_Stream(self._seed, self._context, self._requests), self._requests, self._correction)


class Taking:
    """Tuples of a running check: each is returned once, in the order of the requests."""

    def __init__(self, stream: _Stream, requests: Sequence[Request], correction: U64) -> None:
        self._stream = stream
        self._requests = tuple(requests)
        self._correction = correction
        self._next = 0
        self._corrected = 0

    def __repr__(self) -> str:
        return f"Taking({self._next} of {len(self._requests)} taken)"

    @property
    def left(self) -> int:
        """Number of remaining requests."""
        return len(self._requests) - self._next

    def take(self, kind: Kind, shape: tuple[int, ...]) -> tuple[U64, ...]:
        """Return the parts of the next tuples, u64 of ``shape``: r, s of squares; a, b, c of ANDs.

        Raises:
            UsageError: all are used, or another request is next.
        """
        if not self.left:
            raise UsageError(
                "cannot multiply in this check: all triples that were dealt are used, and each is used once"
            )
        request = self._requests[self._next]
        if (request.kind, request.shape) != (kind, tuple(shape)):
            raise UsageError(
                f"the next triple must be {request.kind!r} of shape {request.shape}, as dealt; found"
                f" {kind!r} {tuple(shape)}"
            )
        self._next += 1
        *parts, last = self._stream.take(request)
        if self._correction.size:
            correction = self._correction[self._corrected : self._corrected + request.size]
            self._corrected += request.size
            last = last + correction if kind == "square" else last ^ correction
        return tuple(part.reshape(shape) for part in (*parts, last))


class _Stream:
    def __init__(self, seed: bytes, context: bytes, requests: Sequence[Request]) -> None:
        words = sums.exact_sum(_PARTS[request.kind] * request.size for request in requests)
        self._words = crypto.expand(
            crypto.derive_key(seed, "correlated randomness", context), words, np.uint64
        )
        self._at = 0

    def take(self, request: Request) -> list[U64]:
        count = _PARTS[request.kind]
        block = self._words[self._at : self._at + count * request.size]
        self._at += block.size
        parts = [part.copy() for part in block.reshape(count, request.size)]
        block.fill(0)
        return parts


def _sum(parts: Sequence[U64]) -> U64:
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _xor(parts: Sequence[U64]) -> U64:
    total = parts[0].copy()
    for part in parts[1:]:
        total ^= part
    return total
