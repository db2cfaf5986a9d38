"""The two noise laws by other means than the program's: series in decimals, and an integral in floats."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np

from securefl.base.arrays import F64, I64
from securefl.methods.privacy.table import NoiseTable

DIGITS = 60


def exact_law(law: str, std: int, largest: int) -> list[Decimal]:
    """P(X = k) for k = 0 ... ``largest`` to some 50 digits, by definition."""
    with localcontext() as context:
        context.prec = DIGITS
        return _skellam(std, largest) if law == "skellam" else _discrete_gaussian(std, largest)


def _discrete_gaussian(std: int, largest: int) -> list[Decimal]:
    weights = [(Decimal(-k * k) / (2 * std * std)).exp() for k in range(20 * std)]
    total = weights[0] + 2 * sum(weights[1:])
    return [weight / total for weight in weights[: largest + 1]]


def _skellam(std: int, largest: int) -> list[Decimal]:
    """The difference of two Poisson variables of mean mu: sum over j of P(j + k) P(j), term by term."""
    mu = Decimal(std * std) / 2
    poisson = [(-mu).exp()]
    for j in range(1, 4 * std * std + 8 * largest):
        poisson.append(poisson[-1] * mu / j)
    return [
        sum(
            (a * b for a, b in zip(poisson, poisson[k:], strict=False) if b > Decimal(10) ** -DIGITS),
            Decimal(0),
        )
        for k in range(largest + 1)
    ]


def skellam_by_integral(std: float, ks: I64) -> F64:
    """The Skellam law by inversion of its characteristic function exp(s^2 (cos t - 1)), to about 1e-16.

    The trapezoid rule on a whole period is exact up to the law's mass at distances of the number of points.
    """
    points = int(64 * std)
    angles = 2 * np.pi * np.arange(points) / points
    # cos t - 1 = -2 sin^2(t / 2) keeps its digits near 0.
    characteristic = np.exp(-2 * std**2 * np.sin(angles / 2) ** 2)
    return np.array([float((characteristic * np.cos(k * angles)).sum()) / points for k in ks.tolist()])


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, theorem 8; by erfc, which keeps its digits in the tails."""
    upper, lower = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    root = math.sqrt(2)
    return (math.erfc(upper / root) - math.exp(epsilon) * math.erfc(lower / root)) / 2


def masses(table: NoiseTable) -> list[int]:
    """2^127 times the probability of each magnitude 0 ... ``largest`` of a table."""
    edges = [0, *table.thresholds, 2**127]
    return [above - below for below, above in pairwise(edges)]


def law_of_table(table: NoiseTable) -> F64:
    """P(draw = k) for k = -largest ... largest."""
    half = np.array([mass / 2**128 for mass in masses(table)])
    half[0] *= 2
    return np.concatenate([half[:0:-1], half])
