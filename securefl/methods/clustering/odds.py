"""Odds of random clusters for numbers bounded over the whole run: exact if affordable."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from securefl.base import sums
from securefl.base.arrays import F64

_EXACT_WORK = 300_000
"""Largest number of integer products of an exact count; beyond it clusters are treated as independent."""


def tail(population: int, marked: int, drawn: int, at_least: int) -> float:
    """Return P(``drawn`` of ``population``, without replacement, hold at least ``at_least`` ``marked``)."""
    ways = sums.exact_sum(
        math.comb(marked, hit) * math.comb(population - marked, drawn - hit)
        for hit in range(max(at_least, 0), min(drawn, marked) + 1)
    )
    return ways / math.comb(population, drawn)


def alone_among(population: int, marked: int, size: int) -> float:
    """Return P(all ``size - 1`` cluster mates of a given unmarked party are marked)."""
    return tail(population - 1, marked, size - 1, size - 1)


def once_in(probability: float, times: int) -> float:
    """Return P(an event happens at least once in ``times`` independent trials)."""
    if probability >= 1:
        return 1.0 if times else 0.0
    return -math.expm1(times * math.log1p(-probability))


def binomial_law(trials: int, rate: float) -> F64:
    """Return P(X = k) of X ~ Binomial(``trials`` >= 0, 0 <= ``rate`` <= 1), f64 ``(trials + 1,)``."""
    from scipy import special  # noqa: PLC0415 - a fifth of a second that most commands need not spend

    hits = np.arange(trials + 1)
    ways = special.gammaln(trials + 1) - special.gammaln(hits + 1) - special.gammaln(trials - hits + 1)
    law: F64 = np.exp(ways + special.xlogy(hits, rate) + special.xlog1py(trials - hits, -rate))
    return law


def all_within(sizes: Sequence[int], marked: int, allowed: Callable[[int], int], resting: int = 0) -> float:
    """Return P(no cluster holds more than ``allowed(size)`` marked parties) under a uniform assignment.

    It is the coefficient of x^marked in prod_i sum_(h <= allowed) C(size_i, h) x^h over C(population,
    marked). ``marked`` counts the whole population, which includes ``resting`` parties in no cluster.
    """
    population = sums.exact_sum(sizes) + resting
    if population * marked > _EXACT_WORK:
        kept = {size: 1 - tail(population, marked, size, allowed(size) + 1) for size in set(sizes)}
        return math.prod(kept[size] for size in sizes)
    total = [math.comb(resting, hit) for hit in range(min(resting, marked) + 1)]
    for size in sizes:
        factor = [math.comb(size, hit) for hit in range(min(size, allowed(size), marked) + 1)]
        total = _product(total, factor, marked)
    return total[marked] / math.comb(population, marked) if marked < len(total) else 0.0


def clusters_kept(
    clusters: Sequence[Sequence[int]], dropouts: int, min_survivors: int, parties: int
) -> float:
    """Return P(random dropouts leave every cluster ``min_survivors``), if each removes its whole atom.

    ``dropouts`` are uniform among ``parties``, those in no cluster included; ``clusters`` hold sizes of
    atoms. Counts choices as :func:`all_within` does. A cluster's factor is a sum over the sets of atoms that
    it can lose, of prod_(a lost) ((1 + x)^a - 1).
    """
    resting = parties - sums.exact_sum(map(sums.exact_sum, clusters))
    if parties * dropouts > _EXACT_WORK:
        rate = dropouts / parties
        return math.prod(cluster_kept_at(atoms, rate, min_survivors) for atoms in clusters)
    total = [math.comb(resting, hit) for hit in range(min(resting, dropouts) + 1)]
    for atoms, count in Counter(tuple(sorted(atoms)) for atoms in clusters).items():
        ways = _ways_to_lose(atoms, min_survivors, dropouts)
        total = _product(total, _power(ways, count, dropouts), dropouts)
    return total[dropouts] / math.comb(parties, dropouts) if dropouts < len(total) else 0.0


@functools.lru_cache(maxsize=1024)
def _ways_to_lose(atoms: tuple[int, ...], min_survivors: int, dropouts: int) -> list[int]:
    """Return, by number of dropouts, the choices that leave enough members of a cluster of atoms."""
    by_members: dict[int, list[int]] = {0: [1]}
    for atom in atoms:
        hit = [0] + [math.comb(atom, drops) for drops in range(1, min(atom, dropouts) + 1)]
        for lost, ways in sorted(by_members.items(), reverse=True):
            more = _product(ways, hit, dropouts)
            by_members[lost + atom] = _sum(by_members.get(lost + atom, []), more)
    allowed: list[int] = []
    for lost, ways in by_members.items():
        if sums.exact_sum(atoms) - lost >= min_survivors:
            allowed = _sum(allowed, ways)
    return allowed


def cluster_kept_at(atoms: Sequence[int], rate: float, min_survivors: int) -> float:
    """Return P(a cluster of atoms keeps ``min_survivors``) if each member drops out at ``rate``."""
    by_members = {0: 1.0}
    for atom in atoms:
        after: dict[int, float] = {}
        whole = (1 - rate) ** atom
        for lost, chance in by_members.items():
            after[lost] = after.get(lost, 0.0) + chance * whole
            after[lost + atom] = after.get(lost + atom, 0.0) + chance * (1 - whole)
        by_members = after
    return math.fsum(
        chance for lost, chance in by_members.items() if sums.exact_sum(atoms) - lost >= min_survivors
    )


def touched_at_most(sizes: Sequence[int], marked: int, most: int, resting: int = 0) -> float:
    """Return P(at most ``most`` clusters hold any of the ``marked``) under a uniform assignment.

    Inclusion-exclusion weighs sets of i clusters, which C(n, marked) choices touch alone (n parties with the
    ``resting``), by (-1)^(most - i) C(c - i - 1, most - i). Many clusters use the normal approximation with
    the exact mean and, for equal sizes, the exact variance.
    """
    if most >= min(len(sizes), marked):
        return 1.0
    population = sums.exact_sum(sizes) + resting
    if population * marked * min(most + 1, marked) > _EXACT_WORK:
        return _touched_normal(sizes, population, marked, most)
    hits = sums.exact_sum(
        (-1 if (most - chosen) % 2 else 1)
        * math.comb(len(sizes) - chosen - 1, most - chosen)
        * sets
        * math.comb(members + resting, marked)
        for (chosen, members), sets in _unions(tuple(sorted(sizes))).items()
        if chosen <= most
    )
    return hits / math.comb(population, marked)


@functools.lru_cache(maxsize=64)
def _unions(sizes: tuple[int, ...]) -> Mapping[tuple[int, int], int]:
    """Return the number of sets of clusters, by number of clusters and of their members."""
    found: Mapping[tuple[int, int], int] = {(0, 0): 1}
    for size, count in Counter(sizes).items():
        after: Counter[tuple[int, int]] = Counter()
        for (chosen, members), sets in found.items():
            for more in range(count + 1):
                after[chosen + more, members + more * size] += sets * math.comb(count, more)
        found = after
    return found


def _touched_normal(sizes: Sequence[int], population: int, marked: int, most: int) -> float:
    untouched = {size: 1 - tail(population, marked, size, 1) for size in set(sizes)}
    clean = [untouched[size] for size in sizes]
    mean = len(sizes) - math.fsum(clean)
    size = round(sums.exact_sum(sizes) / len(sizes))
    pair = 1 - tail(population, marked, min(2 * size, population), 1)
    single = math.fsum(clean) / len(clean)
    variance = math.fsum(p * (1 - p) for p in clean) + len(sizes) * (len(sizes) - 1) * (
        pair - single * single
    )
    if variance <= 0:
        return 1.0 if mean <= most else 0.0
    return 0.5 * math.erfc((mean - most - 0.5) / math.sqrt(2 * variance))


def _product(left: list[int], right: list[int], degree: int) -> list[int]:
    """Return the product of two polynomials up to x^degree (Kronecker's substitution; coefficients >= 0)."""
    if not left or not right:
        return []
    bits = max(left).bit_length() + max(right).bit_length() + min(len(left), len(right)).bit_length()
    size = -(-bits // 8)
    both = _pack_coefficients(left, size) * _pack_coefficients(right, size)
    raw = both.to_bytes((len(left) + len(right)) * size, "little")
    count = min(len(left) + len(right) - 1, degree + 1)
    return [int.from_bytes(raw[at : at + size], "little") for at in range(0, count * size, size)]


def _power(base: list[int], exponent: int, degree: int) -> list[int]:
    """Return a polynomial to the power of ``exponent`` >= 1, up to x^degree."""
    if exponent == 1:
        return base[: degree + 1]
    half = _power(base, exponent // 2, degree)
    whole = _product(half, half, degree)
    return _product(whole, base, degree) if exponent % 2 else whole


def _pack_coefficients(coefficients: list[int], size: int) -> int:
    return int.from_bytes(b"".join(one.to_bytes(size, "little") for one in coefficients), "little")


def _sum(left: list[int], right: list[int]) -> list[int]:
    short, long = sorted((left, right), key=len)
    return [a + b for a, b in zip(short, long, strict=False)] + long[len(short) :]
