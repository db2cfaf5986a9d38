"""Prototypes of checks that withstand a deviating evaluator, against today's: bytes and CPU (ADR 0042).

``python -m tests.statistics.authenticated_checks`` prints the table of the ADR. Three ways to check one
update of 64 projections among k evaluators:

- ``today``: CrypTen, as it runs;
- ``macs``: the same comparison, each shared bit with a MAC under a key that the dealer shares, all openings
  checked at once before the bit is believed (SPDZ2k and TinyOT with a dealer). One masked opening converts
  to bits, so that the number of evaluators does not matter. Bits and their MACs are computed with; words
  modulo 2^128, which come on top, are counted in bytes alone: a lower bound;
- ``proof``: the owner tells the bits of its projections and of what is left to the bound, each under a random
  bit that the dealer has dealt. Whatever is opened is 0 for an honest owner, so that no opening depends on
  its update, whatever an evaluator does. No MACs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import U64
from securefl.methods.privacy.norm_check import NormTest, norm_test
from securefl.protocol.secure_sum.validated.check import check_session
from securefl.protocol.secure_sum.validated.dealing import requests_of
from tests.unit.crypten.driving import drive, shared, worlds

Array = npt.NDArray[Any]

WORD, MAC = 8, 8
"""Bytes of a word, and of the MAC of a bit: 64 bits, as many as a word's."""
WIDE = 16
"""Bytes of a word modulo 2^128: 64 bits of value and 64 that MACs need."""


@dataclass(frozen=True)
class Cost:
    """One check of one update."""

    dealt: int
    """Bytes to all evaluators and the owner."""
    said: int
    """Bytes that evaluators and owner send each other."""
    cpu: float
    """Seconds of one evaluator."""
    exchanges: int
    verdict: bool


def today(values: Sequence[int], evaluators: int, test: NormTest, seed: int) -> Cost:
    """The check as it is."""
    said = 0

    def spy(_sender: int, payload: bytes) -> bytes:
        nonlocal said
        said += len(payload)
        return payload

    requests = requests_of(evaluators, test.projections)
    shares, everybody = shared(values, evaluators, seed), worlds(evaluators, requests, seed)
    begun = time.process_time()
    results, exchanges = drive(
        [
            check_session(world, share, test, tuples)
            for share, (world, tuples) in zip(shares, everybody, strict=True)
        ],
        spy,
    )
    cpu = (time.process_time() - begun) / evaluators
    dealt = 32 * evaluators + WORD * sum(request.size for request in requests)
    return Cost(dealt, said, cpu, exchanges, results[0])


@dataclass
class Bits:
    """Bits as XOR shares u8 ``(k, n)``, and XOR shares u64 of bit times key."""

    value: Array
    mac: Array

    def __xor__(self, other: Bits) -> Bits:
        return Bits(self.value ^ other.value, self.mac ^ other.mac)

    def at(self, where: Any) -> Bits:
        return Bits(self.value[:, where], self.mac[:, where])


@dataclass
class Dealt:
    """A dealer and the evaluators' common state."""

    evaluators: int
    generator: np.random.Generator
    keys: Array = field(init=False)
    dealt: int = 0
    said: int = 0
    exchanges: int = 0
    spent: float = 0.0
    """Seconds of the dealer, which are no evaluator's."""
    opened: list[tuple[Array, Array]] = field(default_factory=list)
    meddle: Callable[[int], int] = lambda _opening: 0
    """What an evaluator adds to its first bit of an opening."""

    def __post_init__(self) -> None:
        self.keys = self.generator.integers(0, 2**64, self.evaluators, np.uint64)

    def share(self, bits: Array) -> Bits:
        """Shares of bits that the dealer knows; all MACs but one are streams of seeds."""
        begun, shape = time.process_time(), (self.evaluators, bits.size)
        value = self.generator.integers(0, 2, shape, np.uint8)
        mac = self.generator.integers(0, 2**64, shape, np.uint64)
        value[0] ^= np.bitwise_xor.reduce(value) ^ bits
        mac[0] ^= np.bitwise_xor.reduce(mac) ^ bits * np.bitwise_xor.reduce(self.keys)
        self.spent += time.process_time() - begun
        self.dealt += MAC * bits.size
        return Bits(value, mac)

    def plus(self, bits: Bits, public: Array) -> Bits:
        """XOR with public bits."""
        value = bits.value.copy()
        value[0] ^= public
        return Bits(value, bits.mac ^ public * self.keys[:, None])

    def times(self, bits: Bits, public: Array) -> Bits:
        """AND with public bits."""
        return Bits(bits.value * public, bits.mac * public)

    def open(self, bits: Bits) -> Array:
        """Bits told by everybody to everybody; their MACs are kept for the check."""
        value = bits.value
        value[-1, 0] ^= self.meddle(self.exchanges)
        total = np.bitwise_xor.reduce(value)
        self.opened.append((total, bits.mac))
        self.said += -(-total.size // 8) * self.evaluators * (self.evaluators - 1)
        self.exchanges += 1
        return np.asarray(total)

    def both(self, left: Bits, right: Bits) -> Bits:
        """AND of shared bits, by a triple."""
        size = left.value.shape[1]
        a, b = (self.generator.integers(0, 2, size, np.uint8) for _ in range(2))
        one, two, three = self.share(a), self.share(b), self.share(a & b)
        self.dealt += size // 8
        masked = Bits(
            np.concatenate([(left ^ one).value, (right ^ two).value], 1),
            np.concatenate([(left ^ one).mac, (right ^ two).mac], 1),
        )
        told = self.open(masked)
        d, e = told[:size], told[size:]
        return self.plus(three ^ self.times(two, d) ^ self.times(one, e), d & e)

    def holds(self) -> bool:
        """The MACs of all that was opened, in one random combination over GF(2^64)."""
        told = np.concatenate([total for total, _ in self.opened])
        macs = np.concatenate([mac for _, mac in self.opened], 1)
        weights = self.generator.integers(0, 2**64, told.size, np.uint64)
        left = macs ^ told * self.keys[:, None]
        sums = [
            int(np.bitwise_xor.reduce(left[rank][(weights >> np.uint64(bit)) & np.uint64(1) == 1]))
            for rank in range(self.evaluators)
            for bit in range(64)
        ]
        self.said += 2 * (32 + MAC) * self.evaluators * (self.evaluators - 1)
        self.exchanges += 2
        combined = 0
        for at, part in enumerate(sums):
            combined ^= part << at % 64
        return combined == 0


def macs(
    values: Sequence[int],
    evaluators: int,
    test: NormTest,
    seed: int,
    meddle: Callable[[int], int] = lambda _opening: 0,
    offset: int = 0,
) -> Cost:
    """The comparison with authenticated bits; refused where a MAC does not hold.

    Each evaluator puts its share of the projections in, so that ``offset``, what one of them adds to its
    share of the first, is authenticated as well.
    """
    begun, size = time.process_time(), len(values)
    values = [values[0] + offset, *values[1:]]
    dealer = Dealt(evaluators, np.random.default_rng(seed), meddle=meddle)
    words = [value + (1 << test.range_bits) for value in values]
    words.append(test.threshold - sum(value * value for value in values))
    plain = np.array([word % 2**64 for word in words], np.uint64)
    masks = dealer.generator.integers(0, 2**64, plain.size, np.uint64)
    # Inputs and their MACs, squares, masks; what is opened of them.
    dealer.dealt += WIDE * (evaluators * size + 3 * size + 2 * len(words))
    dealer.said += WIDE * (2 * size + len(words)) * evaluators * (evaluators - 1)
    dealer.exchanges += 3
    opened, mask = _bits(plain + masks), dealer.share(_bits(masks).reshape(-1))
    # opened - mask, by a tree of carries: no carry is made where both bits are alike.
    make = dealer.times(mask, 1 - opened.reshape(-1))
    keep = dealer.plus(mask, 1 - opened.reshape(-1))
    alike = keep
    for step in (1, 2, 4, 8, 16, 32):
        lower = _moved(make, step), _moved(keep, step)
        both = dealer.both(_joined(keep, keep), _joined(*lower))
        half = make.value.shape[1]
        make, keep = make ^ both.at(slice(half)), both.at(slice(half, None))
    difference = dealer.plus(alike ^ _moved(make, 1), np.ones(plain.size * 64, np.uint8))
    wanted = np.zeros((plain.size, 64), bool)
    wanted[:-1, test.range_bits + 1 :] = wanted[-1, 63] = True
    good = dealer.plus(difference, np.ones(plain.size * 64, np.uint8)).at(wanted.reshape(-1))
    while (left := good.value.shape[1]) > 1:
        half = left // 2
        joined = dealer.both(good.at(slice(half)), good.at(slice(half, 2 * half)))
        good = _joined(joined, good.at(slice(2 * half, None)))
    believed = dealer.holds()
    verdict = bool(dealer.open(good)[0])
    believed = believed and dealer.holds()
    cpu = (time.process_time() - begun - dealer.spent) / evaluators
    dealt = dealer.dealt + 32 * evaluators
    return Cost(dealt, dealer.said, cpu, dealer.exchanges, verdict and believed)


def _bits(words: U64) -> Array:
    """Lowest first, u8 ``(n, 64)``."""
    return ((words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).astype(np.uint8)


def _moved(bits: Bits, step: int) -> Bits:
    """Each word's bits ``step`` places up, with zeros behind them."""
    value, mac = (part.reshape(len(part), -1, 64) for part in (bits.value, bits.mac))
    up = [np.zeros_like(part) for part in (value, mac)]
    for target, part in zip(up, (value, mac), strict=True):
        target[:, :, step:] = part[:, :, :-step]
    return Bits(*(part.reshape(len(part), -1) for part in up))


def _joined(left: Bits, right: Bits) -> Bits:
    return Bits(np.concatenate([left.value, right.value], 1), np.concatenate([left.mac, right.mac], 1))


def proof(values: Sequence[int], evaluators: int, test: NormTest, seed: int, offset: int = 0) -> Cost:
    """The owner's bits under dealt ones; ``offset`` is what an evaluator adds to a projection."""
    generator = np.random.default_rng(seed)
    projected = shared(values, evaluators, seed)
    projected[-1, :1] += np.uint64(offset % 2**64)
    width, places = test.range_bits + 1, test.threshold.bit_length()
    left = test.threshold - sum(value * value for value in values)
    count, size = len(values) * width + places, len(values)
    random = generator.integers(0, 2, count, np.uint64)
    roots = generator.integers(0, 2**64, size, np.uint64)
    dealt_bits, dealt_roots, dealt_squares = (
        shared([int(word) for word in words], evaluators, seed + at)
        for at, words in enumerate((random, roots, roots * roots), 1)
    )
    # The owner: what does not fit into the bits is cut off.
    own = np.array([v % 2**64 for v in values], np.uint64)
    shifted = (own + np.uint64(1 << test.range_bits))[:, None] >> np.arange(width, dtype=np.uint64)
    rest = np.array([left % 2**64], np.uint64)[:, None] >> np.arange(places, dtype=np.uint64)
    told = np.concatenate([(shifted & 1).reshape(-1), (rest & 1).reshape(-1)]) ^ random
    moved = own - roots
    # The evaluators: everything is linear.
    begun = time.process_time()
    zeros = []
    for rank in range(evaluators):
        first = np.uint64(rank == 0)
        bits = told * first + dealt_bits[rank] - 2 * told * dealt_bits[rank]
        powers = np.uint64(1) << np.arange(max(width, places), dtype=np.uint64)
        inside = bits[: size * width].reshape(size, width) @ powers[:width] - first * np.uint64(
            1 << test.range_bits
        )
        squares = dealt_squares[rank] + 2 * moved * dealt_roots[rank] + first * moved * moved
        slack = bits[size * width :] @ powers[:places]
        bound = first * np.array([test.threshold], np.uint64) - squares.sum(dtype=np.uint64) - slack
        root = inside - dealt_roots[rank] - first * moved
        zeros.append(np.concatenate([projected[rank] - inside, root, bound]))
    verdict = not np.sum(zeros, 0, np.uint64).any()
    cpu = (time.process_time() - begun) / evaluators
    dealt = 32 * (evaluators + 1) + WORD * (count + size)
    said = evaluators * (-(-count // 8) + WORD * size) + evaluators * (evaluators - 1) * WORD * (2 * size + 1)
    return Cost(dealt, said, cpu, 2, verdict)


def rows(repeats: int = 5) -> list[str]:
    """The table of the ADR: medians."""
    lines = [
        "| m | check | dealt, kB | said, kB | exchanges | CPU of an evaluator, ms |",
        "|---|---|---|---|---|---|",
    ]
    test = norm_test(2**17, 64, 1e-3)
    values = [round(value) for value in np.random.default_rng(1).normal(size=64) * 2**17 / 3]
    for evaluators in (2, 4):
        for name, way in (("today", today), ("macs", macs), ("proof", proof)):
            costs = [way(values, evaluators, test, seed) for seed in range(repeats)]
            assert all(cost.verdict == test.passes(values) for cost in costs)
            one, cpu = costs[0], sorted(cost.cpu for cost in costs)[repeats // 2]
            lines.append(
                f"| {evaluators + 1} | {name} | {one.dealt / 1e3:.1f} | {one.said / 1e3:.1f} |"
                f" {one.exchanges} | {1e3 * cpu:.2f} |"
            )
    return lines


if __name__ == "__main__":
    print("\n".join(rows()))
