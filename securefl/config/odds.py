"""What random clusters make of numbers bounded for the whole run: exact where that is affordable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

_EXACT_WORK = 300_000
"""Integer products that an exact count may cost; beyond it clusters are treated as independent."""


def tail(population: int, marked: int, drawn: int, at_least: int) -> float:
    """P(``drawn`` of ``population``, without replacement, hold ``at_least`` or more of the ``marked``)."""
    ways = sum(
        math.comb(marked, hit) * math.comb(population - marked, drawn - hit)
        for hit in range(max(at_least, 0), min(drawn, marked) + 1)
    )
    return ways / math.comb(population, drawn)


def alone_among(population: int, marked: int, size: int) -> float:
    """P(all ``size - 1`` cluster mates of a given unmarked party are marked).

    For 60 parties, 12 colluders and clusters of 3 it is 3.9 % per opening (protocol.md, Parameters).
    """
    return tail(population - 1, marked, size - 1, size - 1)


def once_in(probability: float, times: int) -> float:
    """P(an event happens at least once in ``times`` independent trials)."""
    if probability >= 1:
        return 1.0 if times else 0.0
    return -math.expm1(times * math.log1p(-probability))


def all_within(sizes: Sequence[int], marked: int, allowed: Callable[[int], int], resting: int = 0) -> float:
    """P(no cluster holds more of the ``marked`` than ``allowed(size)``) under a uniformly random assignment.

    Counts assignments with the generating function prod_i sum_(h <= allowed) C(size_i, h) x^h: the
    coefficient of x^marked over C(population, marked).

    Args:
        sizes: of the clusters.
        marked: how many of the whole population, those in no cluster included.
        allowed: the most that a cluster of a given size may hold.
        resting: parties that are in no cluster.
    """
    population = sum(sizes) + resting
    if population * marked > _EXACT_WORK:
        kept = {size: 1 - tail(population, marked, size, allowed(size) + 1) for size in set(sizes)}
        return math.prod(kept[size] for size in sizes)
    total = [math.comb(resting, hit) for hit in range(min(resting, marked) + 1)]
    for size in sizes:
        factor = [math.comb(size, hit) for hit in range(min(size, allowed(size), marked) + 1)]
        total = _product(total, factor, marked)
    return total[marked] / math.comb(population, marked) if marked < len(total) else 0.0


def touched_at_most(sizes: Sequence[int], marked: int, most: int, resting: int = 0) -> float:
    """P(at most ``most`` clusters hold any of the ``marked``) under a uniformly random assignment.

    Counted like :func:`all_within`, with a second variable for touched clusters; with many clusters by the
    normal approximation with the exact mean and, for equal sizes, the exact variance.
    """
    if most >= min(len(sizes), marked):
        return 1.0
    population = sum(sizes) + resting
    if population * marked * min(most + 1, marked) > _EXACT_WORK:
        return _touched_normal(sizes, population, marked, most)
    ways = [[math.comb(resting, hit) for hit in range(min(resting, marked) + 1)]]
    for size in sizes:
        dirty = [0] + [math.comb(size, hit) for hit in range(1, min(size, marked) + 1)]
        untouched = [*ways, []]
        newly = [[], *(_product(row, dirty, marked) for row in ways)]
        ways = [_sum(a, b) for a, b in zip(untouched, newly, strict=True)][: most + 1]
    hits = sum(row[marked] for row in ways if marked < len(row))
    return hits / math.comb(population, marked)


def _touched_normal(sizes: Sequence[int], population: int, marked: int, most: int) -> float:
    untouched = {size: 1 - tail(population, marked, size, 1) for size in set(sizes)}
    clean = [untouched[size] for size in sizes]
    mean = len(sizes) - sum(clean)
    size = round(sum(sizes) / len(sizes))
    pair = 1 - tail(population, marked, min(2 * size, population), 1)
    single = sum(clean) / len(clean)
    variance = sum(p * (1 - p) for p in clean) + len(sizes) * (len(sizes) - 1) * (pair - single * single)
    if variance <= 0:
        return 1.0 if mean <= most else 0.0
    return 0.5 * math.erfc((mean - most - 0.5) / math.sqrt(2 * variance))


def _product(left: list[int], right: list[int], degree: int) -> list[int]:
    """The product of two polynomials up to x^degree."""
    if not left or not right:
        return []
    out = [0] * min(len(left) + len(right) - 1, degree + 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right[: len(out) - i]):
            out[i + j] += a * b
    return out


def _sum(left: list[int], right: list[int]) -> list[int]:
    short, long = sorted((left, right), key=len)
    return [a + b for a, b in zip(short, long, strict=False)] + long[len(short) :]
