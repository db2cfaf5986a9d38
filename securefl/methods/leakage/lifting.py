"""Exact rational solutions of integer systems that are regular modulo a prime (Dixon 1982).

Fractions are reconstructed from the solution modulo powers of p, and returned only if they solve the system
over the integers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from securefl.base import sums
from securefl.base.arrays import I64
from securefl.base.errors import UsageError
from securefl.methods.leakage import modular
from securefl.methods.leakage.echelon import Echelon


@dataclass(frozen=True, slots=True)
class Fractions:
    """A rational vector: ``numerators[i] / denominator``, the denominator positive."""

    numerators: tuple[int, ...]
    denominator: int


def solve(matrix: I64, right: I64, prime: int) -> list[Fractions]:
    """Return x with ``matrix @ x == right`` for each column of ``right``, over the rationals.

    Args:
        matrix: zeros and ones, ``(n, n)``, regular modulo ``prime``.
        right: ``(n, k)``, entries of magnitude below 2^31.
        prime: of 61 bits.

    Raises:
        UsageError: wrong shapes, or a matrix that is singular modulo ``prime``.
    """
    size = len(matrix)
    if matrix.shape != (size, size) or right.shape[:1] != (size,):
        raise UsageError(
            f"matrix must be square with as many rows as right; found shapes {matrix.shape} and {right.shape}"
        )
    inverse = _inverse(matrix, prime)
    rows = [np.flatnonzero(row).tolist() for row in matrix]
    # Hadamard and Cramer: numerators and denominator of a solution are below this.
    norms = math.prod(math.isqrt(len(row)) + 1 for row in rows)
    limit = norms * (math.isqrt(size) + 1) * (int(np.abs(right).max(initial=0)) + 1)
    unit = np.array([pow(prime, -1, 2**64)], np.uint64).view(np.int64)
    doubles = matrix.astype(np.float64)

    found: list[Fractions | None] = [None] * right.shape[1]
    rest, digits, modulus = right.astype(np.int64), 0, 1
    value = np.zeros(right.shape, object)
    while None in found:
        if modulus > 2 * limit * limit:
            raise UsageError(
                "cannot lift the solution to fractions: none solves the system within its bound: a bug in"
                " securefl"
            )
        digit = modular.product(inverse, rest % prime, prime)
        # Exact: the difference is a multiple of the prime, and the quotient has magnitude below n + 2^31.
        rest = (rest - modular.wrapped_product(doubles, digit)) * unit
        value += digit.astype(object) * modulus
        modulus *= prime
        digits += 1
        if digits & digits - 1 == 0 or modulus > 2 * limit * limit:
            for column in (k for k, known in enumerate(found) if known is None):
                candidate = _fractions(value[:, column].tolist(), modulus)
                if candidate is not None and _solves(rows, candidate, right[:, column].tolist()):
                    found[column] = candidate
    return [solution for solution in found if solution is not None]


def _inverse(matrix: I64, prime: int) -> I64:
    size = len(matrix)
    echelon = Echelon.empty(prime, 2 * size)
    for row in np.concatenate([matrix, np.eye(size, dtype=np.int64)], axis=1):
        echelon = echelon.append(row)
    whole = echelon.settled
    order = np.argsort(np.array(whole.pivots, dtype=np.int64))
    if whole.rank < size or max(whole.pivots, default=-1) >= size:
        raise UsageError("cannot solve the system: matrix is singular modulo the prime; use another prime")
    return whole.basis[order][:, size:]


def _solves(rows: Sequence[Sequence[int]], solution: Fractions, right: Sequence[int]) -> bool:
    x = solution.numerators
    return all(
        sums.exact_sum(x[j] for j in row) == solution.denominator * target
        for row, target in zip(rows, right, strict=True)
    )


def _fractions(values: Sequence[int], modulus: int) -> Fractions | None:
    """Return small fractions with one denominator that equal ``values`` modulo ``modulus``, or None."""
    bound = math.isqrt(modulus // 2)
    denominator = 1
    for value in values:
        scaled = _centre(value * denominator, modulus)
        if abs(scaled) > bound:
            denominator *= _denominator(scaled % modulus, modulus, bound)
            if denominator > bound:
                return None
    numerators = tuple(_centre(value * denominator, modulus) for value in values)
    if any(abs(numerator) > bound for numerator in numerators):
        return None
    return Fractions(numerators, denominator)


def _denominator(value: int, modulus: int, bound: int) -> int:
    """Return the denominator of the fraction equal to ``value``: Euclid's algorithm, half way (Wang 1981)."""
    before, now = modulus, value
    below, denominator = 0, 1
    while now > bound:
        quotient = before // now
        before, now = now, before - quotient * now
        below, denominator = denominator, below - quotient * denominator
    return abs(denominator)


def _centre(value: int, modulus: int) -> int:
    rest = value % modulus
    return rest - modulus if rest > modulus // 2 else rest
