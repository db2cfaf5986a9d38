"""Divergences of Gaussian mixtures by quadrature: an oracle for accountants, without their formulas."""

from __future__ import annotations

import math

import numpy as np

from securefl.base.arrays import F64

Mixture = tuple[tuple[float, float], ...]
"""(weight, mean) of each part; all have the same standard deviation."""


def densities(std: float, *mixtures: Mixture) -> tuple[float, list[F64]]:
    """The spacing of a grid, and the densities on it."""
    reach = 12 * std + max(abs(mean) for mixture in mixtures for _, mean in mixture)
    x, spacing = np.linspace(-reach, reach, 20_001, retstep=True)
    scale = std * math.sqrt(2 * math.pi)
    return float(spacing), [
        sum((w * np.exp(-((x - mean) ** 2) / (2 * std**2)) / scale for w, mean in mixture), np.zeros_like(x))
        for mixture in mixtures
    ]


def least_delta(epsilon: float, std: float, one: Mixture, other: Mixture) -> float:
    """Smallest delta at which both directions of the pair keep ``epsilon``."""
    spacing, (p, q) = densities(std, one, other)
    factor = math.exp(epsilon)
    return spacing * max(float(np.maximum(a - factor * b, 0).sum()) for a, b in ((p, q), (q, p)))


def renyi(order: float, std: float, one: Mixture, other: Mixture) -> float:
    """The larger of the two Renyi divergences."""
    spacing, (p, q) = densities(std, one, other)
    with np.errstate(divide="ignore"):
        logs = np.log(p), np.log(q)
    found = []
    for a, b in (logs, logs[::-1]):
        inside = np.isfinite(a) & np.isfinite(b)
        exponents = order * a[inside] + (1 - order) * b[inside]
        top = float(exponents.max())
        found.append((top + math.log(spacing * float(np.exp(exponents - top).sum()))) / (order - 1))
    return max(found)


def plane_delta(epsilon: float, std: float, rate: float, one: F64, other: F64) -> float:
    """Hockey-stick divergence of (1-q) N(0) + q N(one) from (1-q) N(0) + q N(other), in the plane."""
    axis, spacing = np.linspace(-6 * std - 2, 6 * std + 2, 241, retstep=True)
    x, y = np.meshgrid(axis, axis)

    def density(mean: F64) -> F64:
        found: F64 = np.exp(-((x - mean[0]) ** 2 + (y - mean[1]) ** 2) / (2 * std**2)) / (
            2 * math.pi * std**2
        )
        return found

    at_zero = (1 - rate) * density(np.zeros(2))
    p, q = at_zero + rate * density(one), at_zero + rate * density(other)
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * spacing**2)


def classical_epsilon(steps: int, rate: float, std: float, delta: float) -> float:
    """RDP of Poisson-sampled Gaussian noise at the orders 2 to 64, converted as Mironov 2017, proposition 3.

    Divergence at integer orders: Mironov, Talwar and Zhang 2019, section 3.3.
    """
    found = math.inf
    for order in range(2, 65):
        terms = [
            math.log(math.comb(order, k))
            + (order - k) * math.log1p(-rate)
            + k * math.log(rate)
            + k * (k - 1) / (2 * std**2)
            for k in range(order + 1)
        ]
        top = max(terms)
        moment = top + math.log(math.fsum(math.exp(term - top) for term in terms))
        found = min(found, (steps * moment + math.log(1 / delta)) / (order - 1))
    return found
