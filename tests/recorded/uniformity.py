"""Tests of ring vectors for uniformity and independence, with false-alarm rates proved, not approximated.

All statistics are sums S of d independent terms exp(2 pi i u), u uniform: resultants of angles, as in
circular statistics. Re S and Im S are sub-Gaussian with variance proxy d / 2: I_0(t) <= exp(t^2 / 4), and the
same holds for 2^k >= 4 equally spaced angles. Hence P(max(abs(Re S), abs(Im S)) > t) <= 4 exp(-t^2 / d).
The lowest bit gives signs, proxy d: 2 exp(-t^2 / 2d). Within a family the bounds are added up; true rates are
some ten times lower.

- *uniform*: the angles of y, 2y, 4y, ... 2^(b-1) y modulo 2^b: each bit with all bits below it.
- *pairs*: y - y' is small where masks were used twice, y + y' where they cancel.
- *lags*: y at one coordinate minus y some coordinates on. Differences along a chain are independent.
- *truth*: sum of (x - mean x) y over known x, y in [-1/2, 1/2): proxy sum (x - mean x)^2 / 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64, Ring
from securefl.base.errors import UsageError

_ANGLE_BITS = 16
_ANGLES = np.exp(2j * np.pi * np.arange(1 << _ANGLE_BITS) / (1 << _ANGLE_BITS)).astype(np.complex64)
_LAG_VECTORS = 256
"""Vectors that are looked at for lags and bits: the work grows with vectors times coordinates."""

Angles = npt.NDArray[np.complex64]


@dataclass(frozen=True, slots=True)
class FamilyTest:
    """One family of tests on the same vectors."""

    name: str
    comparisons: int
    p_value: float
    """At most the probability that honest masks give a result as extreme as the worst; Bonferroni."""
    worst: tuple[int, ...]
    """Numbers of the vectors in the worst result."""
    resultant: float
    """Its resultant over the number of terms: 1 is a perfect pattern, chance gives 1 / sqrt(d)."""


def angles_of(vectors: Ring, shift: int = 0) -> Angles:
    """The angles of ``2^shift y``, by their leading 16 bits; the same shape, complex64 of modulus 1.

    Raises:
        UsageError: no words of 32 or 64 bits.
    """
    if vectors.dtype not in (np.uint32, np.uint64):
        raise UsageError(f"ring words are u32 or u64, not {vectors.dtype}")
    bits = 8 * vectors.dtype.itemsize
    leading = (vectors << vectors.dtype.type(shift)) >> vectors.dtype.type(bits - _ANGLE_BITS)
    angles: Angles = _ANGLES[leading]
    return angles


def uniform(vectors: Ring) -> FamilyTest:
    """Each bit of the first 256 of ``vectors`` (n, d) with the bits below it."""
    vectors = vectors[:_LAG_VECTORS]
    bits, length = 8 * vectors.dtype.itemsize, vectors.shape[1]
    worst = (math.inf, 0, 0.0)
    for shift in range(bits):
        sums = angles_of(vectors, shift).sum(axis=1, dtype=np.complex128)
        largest = _largest(sums)
        signs = shift == bits - 1
        logs = (math.log(2) if signs else math.log(4)) - largest**2 / (2 * length if signs else length)
        vector = int(np.argmin(logs))
        worst = min(worst, (float(logs[vector]), vector, float(largest[vector]) / length))
    return _family("uniform", bits * len(vectors), worst[0], (worst[1],), worst[2])


def pairs(vectors: Ring) -> FamilyTest | None:
    """Differences and sums of all pairs of ``vectors`` (n, d); None for fewer than two."""
    count, length = vectors.shape
    if count < 2:
        return None
    angles = angles_of(vectors)
    upper = np.triu_indices(count, 1)
    worst = (-1.0, 0)
    for product in (angles @ angles.conj().T, angles @ angles.T):
        largest = _largest(product[upper])
        place = int(np.argmax(largest))
        worst = max(worst, (float(largest[place]), place))
    pair = (int(upper[0][worst[1]]), int(upper[1][worst[1]]))
    logs = math.log(4) - worst[0] ** 2 / length
    return _family("pairs", 2 * len(upper[0]), logs, pair, worst[0] / length)


def lags(vectors: Ring) -> FamilyTest | None:
    """Coordinates against later ones, up to d / 2 on, in the first 256 of ``vectors`` (n, d)."""
    vectors = vectors[:_LAG_VECTORS]
    count, length = vectors.shape
    most = length // 2
    if most < 1:
        return None
    worst = (math.inf, 0, 0.0)
    terms = length - np.arange(1, most + 1)
    for number in range(count):
        spectrum = np.fft.fft(angles_of(vectors[number]).astype(np.complex128), 2 * length)
        largest = _largest(np.fft.ifft(spectrum * spectrum.conj())[1 : most + 1])
        logs = math.log(4) - largest**2 / terms
        lag = int(np.argmin(logs))
        worst = min(worst, (float(logs[lag]), number, float(largest[lag] / terms[lag])))
    return _family("lags", count * most, worst[0], (worst[1],), worst[2])


def against(vectors: Ring, known: list[tuple[int, F64]]) -> FamilyTest | None:
    """``vectors`` (n, d) against what is known of the plain values: (number of the vector, x (d,)) each.

    None where nothing is known, or nothing that varies.
    """
    bits = 8 * vectors.dtype.itemsize
    worst = (math.inf, 0, 0.0)
    tested = 0
    for number, values in known:
        centred = values - values.mean()
        energy = float(centred @ centred)
        if energy <= 0:
            continue
        tested += 1
        placed = vectors[number].astype(np.float64) / 2.0**bits - 0.5
        found = abs(float(centred @ placed))
        scale = math.sqrt(energy * float(placed @ placed)) or 1.0
        worst = min(worst, (math.log(2) - 6 * found**2 / energy, number, found / scale))
    return _family("truth", tested, worst[0], (worst[1],), worst[2]) if tested else None


def detectable(comparisons: int, terms: int, level: float) -> float:
    """The least resultant (over the terms) that is reported at ``level`` with so many comparisons."""
    return math.sqrt(math.log(4 * comparisons / level) / terms)


def _largest(sums: npt.NDArray[Any]) -> F64:
    found: F64 = np.maximum(np.abs(sums.real), np.abs(sums.imag)).astype(np.float64)
    return found


def _family(
    name: str, comparisons: int, log_p: float, worst: tuple[int, ...], resultant: float
) -> FamilyTest:
    p_value = math.exp(min(0.0, log_p + math.log(comparisons)))
    return FamilyTest(name, comparisons, p_value, worst, resultant)
