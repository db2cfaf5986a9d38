"""Arrays of integers modulo a prime of 61 bits: products, matrix products, inverses.

A product of two residues is built from parts of 31 bits. Floating point finds each quotient to within one, so
the remainder is exact in wrapping 64-bit integers. Matrix products run on doubles, on limbs of 21 bits, below
2^53: no result depends on rounding or its order.
"""

import hashlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64, I64
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError

BITS = 61
PRIMES = 1.6e16
"""Lower bound on the number of primes in [2^60, 2^61): 3 x / (5 ln x), x = 2^60 (Rosser and Schoenfeld
1962)."""

_HALF = 31
_LIMB = 21
_LIMBS = 3
_FEW = 64
"""Number of inverses up to which one by one is faster."""
_DEPTH = 1024
"""Largest number of terms of one matrix product on doubles: 2^42 * 2^10 = 2^52."""
_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Miller-Rabin with these bases decides every number below 3.3e24 (Sorenson and Webster 2015)."""


def prime_from(seed: bytes) -> int:
    """Return the prime in [2^60, 2^61) derived from ``seed``: uniform over primes for a uniform seed."""
    block = 0
    while True:
        raw = hashlib.shake_256(b"securefl/1/ledger prime" + block.to_bytes(4, "big") + seed).digest(512)
        for i in range(0, len(raw), 8):
            candidate = int.from_bytes(raw[i : i + 8], "big") >> 4 | 1 << 60 | 1
            if is_prime(candidate):
                return candidate
        block += 1


def draw_prime(entropy: Entropy) -> int:
    """Return a random prime in [2^60, 2^61)."""
    return prime_from(entropy.draw(32))


def is_prime(number: int) -> bool:
    """Return True if ``number``, below 2^64, is a prime; deterministic."""
    if number < 2:
        return False
    for base in _BASES:
        if number % base == 0:
            return number == base
    twos = (number - 1 & 1 - number).bit_length() - 1
    return all(_passes(number, base, twos) for base in _BASES)


def _passes(number: int, base: int, twos: int) -> bool:
    power = pow(base, number - 1 >> twos, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def residues(seed: bytes, shape: tuple[int, ...], prime: int) -> I64:
    """Return residues derived from ``seed``, nearly uniform: no value is likelier than 9 / (8 prime)."""
    raw = hashlib.shake_256(b"securefl/1/ledger residues" + seed).digest(8 * math.prod(shape))
    words = np.frombuffer(raw, dtype="<u8").reshape(shape)
    return (words % np.uint64(prime)).astype(np.int64)


def times(left: I64, right: I64, prime: int) -> I64:
    """Return ``left * right`` modulo ``prime``, element by element, both in [0, prime)."""
    part = left / prime
    high, low = right >> _HALF, right & (1 << _HALF) - 1
    first = _reduce(left * high, part * high, prime)
    quotient = first * (2.0**_HALF / prime) + part * low
    return _reduce((first << _HALF) + left * low, quotient, prime)


def _reduce(wrapped: I64, quotient: npt.NDArray[np.floating[Any]], prime: int) -> I64:
    """Return ``wrapped``, known modulo 2^64, less the multiple of ``prime`` below it; quotients < 2^33."""
    rest = wrapped - quotient.astype(np.int64) * prime
    rest += (rest < 0) * prime
    rest -= (rest >= prime) * prime
    return rest


def product(left: I64, right: I64, prime: int) -> I64:
    """Return the matrix product modulo ``prime`` of ``(a, n)`` and ``(n, b)``, entries in [0, prime)."""
    result = np.zeros((left.shape[0], right.shape[1]), np.int64)
    for start in range(0, left.shape[1], _DEPTH):
        part = _product(left[:, start : start + _DEPTH], right[start : start + _DEPTH], prime)
        result += part
        result -= (result >= prime) * prime
    return result


def _product(left: I64, right: I64, prime: int) -> I64:
    lefts, rights = _limbs(left), _limbs(right)
    places = len(lefts) + len(rights) - 1
    result = np.zeros((left.shape[0], right.shape[1]), np.int64)
    for place in reversed(range(places)):
        pairs = [(i, place - i) for i in range(len(lefts)) if 0 <= place - i < len(rights)]
        digit = np.zeros_like(result)
        for i, j in pairs:
            digit += (lefts[i] @ rights[j]).astype(np.int64)
        quotient = result * (2.0**_LIMB / prime) + digit / prime
        result = _reduce((result << _LIMB) + digit, quotient, prime)
    return result


def _limbs(array: I64) -> list[F64]:
    count = max(1, -(-int(array.max(initial=0)).bit_length() // _LIMB))
    return [(array >> _LIMB * i & (1 << _LIMB) - 1).astype(np.float64) for i in range(count)]


def total(rows: I64, prime: int) -> I64:
    """Return the sum over ``rows``, ``(n, width)`` residues with n below 2^30, modulo ``prime``."""
    high = (rows >> _HALF).sum(axis=0) % prime
    low = (rows & (1 << _HALF) - 1).sum(axis=0)
    quotient = high * (2.0**_HALF / prime) + low / prime
    return _reduce((high << _HALF) + low, quotient, prime)


def wrapped_product(matrix: F64, residue: I64) -> I64:
    """Return ``matrix @ residue`` modulo 2^64, for a matrix of zeros and ones with at most 2^31 columns."""
    result = np.zeros((matrix.shape[0], residue.shape[1]), np.int64)
    for place in range(_LIMBS):
        limb = (residue >> _LIMB * place & (1 << _LIMB) - 1).astype(np.float64)
        result += (matrix @ limb).astype(np.int64) << _LIMB * place
    return result


def inverses(values: I64, prime: int) -> I64:
    """Return the inverses of ``values``, ``(n,)`` in [1, prime); a zero is a UsageError.

    Many inverses take three products each (Montgomery's trick).
    """
    if len(values) <= _FEW:
        if not values.all():
            raise UsageError("values must not be 0: zero has no inverse modulo a prime")
        return np.array([pow(value, -1, prime) for value in values.tolist()], np.int64)
    odd = len(values) % 2
    padded = np.concatenate([values, np.ones(odd, np.int64)])
    left, right = padded[0::2], padded[1::2]
    both = inverses(times(left, right, prime), prime)
    result = np.empty_like(padded)
    result[0::2], result[1::2] = times(both, right, prime), times(both, left, prime)
    return result[: len(values)]
