"""Partitions of a data set over parties. The split is public, so numpy's seeded generator is right here.

Every kind gives one index array per party: disjoint, none empty, in shuffled order. All kinds but
``LabelsPerParty`` and ``ByRole`` also use every sample.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np

from securefl.base.arrays import F64, I64, expect
from securefl.base.errors import ConfigError, UsageError
from securefl.scenario import (
    ByRole,
    ClassShares,
    Dirichlet,
    Iid,
    LabelsPerParty,
    LogNormal,
    LogNormalDirichlet,
    Partition,
)


def partition(labels: I64, parties: int, config: Partition, seed: int) -> tuple[I64, ...]:
    """Indices into ``labels`` for each of ``parties`` parties, as ``config`` says.

    ``labels`` is i64 ``(n,)``, the class of each sample; by role, the number of its role, and role i is what
    party i gets. The same arguments give the same split.

    Raises:
        ConfigError: the split would leave a party without samples, or asks for more classes than there are.
        UsageError: ``parties`` is not positive or ``labels`` has the wrong dtype or shape.
    """
    expect(labels, "labels", np.int64, (None,))
    if parties < 1:
        raise UsageError(f"parties is {parties}, must be at least 1")
    if len(labels) < parties:
        raise ConfigError(
            "parties",
            f"{parties} parties cannot share {len(labels)} samples",
            "use fewer parties, raise data.train_limit or lower data.server_fraction",
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    match config:
        case Iid():
            shares = _cut(rng.permutation(len(labels)), _even_sizes(len(labels), parties))
        case LabelsPerParty(labels=wanted):
            shares = _by_labels(labels, parties, wanted, rng)
        case Dirichlet(alpha=alpha):
            shares = _by_dirichlet(labels, parties, alpha, rng)
        case ClassShares():
            shares = _by_class_shares(labels, parties, rng)
        case LogNormal(sigma=sigma):
            # The mean of the logarithms would scale all draws alike and cancel in the proportions.
            sizes = _log_normal_sizes(len(labels), parties, sigma, rng)
            shares = _cut(rng.permutation(len(labels)), sizes)
        case LogNormalDirichlet():
            sizes = _multinomial_sizes(len(labels), parties, config, rng)
            shares = _cut(rng.permutation(len(labels)), sizes)
        case ByRole():
            shares = _by_role(labels, parties, rng)
        case _:
            assert_never(config)
    return tuple(shares)


def _even_sizes(total: int, parts: int) -> I64:
    sizes = np.full(parts, total // parts, dtype=np.int64)
    sizes[: total % parts] += 1
    return sizes


def _cut(order: I64, sizes: I64) -> list[I64]:
    return np.split(order, np.cumsum(sizes)[:-1])


def _by_labels(labels: I64, parties: int, wanted: int, rng: np.random.Generator) -> list[I64]:
    """Each party gets ``wanted`` classes, every class about equally many holders; a class is split evenly.

    Classes that nobody holds (``parties * wanted`` below the number of classes) stay unused.
    """
    classes = np.unique(labels)
    if wanted > len(classes):
        raise ConfigError(
            "data.partition.labels",
            f"{wanted} classes per party, but the data has {len(classes)}",
            f"at most {len(classes)}",
        )
    holders: list[list[int]] = [[] for _ in classes]
    taken = np.zeros(len(classes), dtype=np.int64)
    for party in range(parties):
        # The least taken classes first, ties at random: holders per class then differ by at most one.
        for column in np.lexsort((rng.random(len(classes)), taken))[:wanted]:
            holders[column].append(party)
            taken[column] += 1
    pieces: list[list[I64]] = [[] for _ in range(parties)]
    sizes = np.zeros(parties, dtype=np.int64)
    for label, members in zip(classes, holders, strict=True):
        if not members:
            continue
        samples = rng.permutation(np.flatnonzero(labels == label))
        # The larger pieces go to those who have least so far.
        poorest = sorted(members, key=lambda member: (int(sizes[member]), member))
        for member, piece in zip(
            poorest, _cut(samples, _even_sizes(len(samples), len(members))), strict=True
        ):
            pieces[member].append(piece)
            sizes[member] += len(piece)
    if not sizes.all():
        raise ConfigError(
            "data.partition.labels",
            f"{int(np.count_nonzero(sizes == 0))} of {parties} parties would hold no sample",
            "use fewer parties, more labels per party or a larger data.train_limit",
        )
    return [rng.permutation(np.concatenate(own)) for own in pieces]


def _by_dirichlet(labels: I64, parties: int, alpha: float, rng: np.random.Generator) -> list[I64]:
    """Equal sizes; each party draws its class mix q ~ Dir(alpha) and its samples from q, without replacement.

    Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification" (arXiv 1909.06335), section 3, with a uniform prior. A class that runs out is left out of
    the mixes after it, so the parties served last follow their mix least; the order of service is random.
    """
    classes = np.unique(labels)
    stock = [rng.permutation(np.flatnonzero(labels == label)) for label in classes]
    left = np.array([len(samples) for samples in stock], dtype=np.int64)
    sizes = _even_sizes(len(labels), parties)
    shares: list[I64] = [np.empty(0, dtype=np.int64)] * parties
    for party in rng.permutation(parties):
        mix = _dirichlet(len(classes), alpha, rng)
        pieces = []
        due = int(sizes[party])
        while due:
            open_mix = np.where(left > 0, mix, 0.0)
            if not open_mix.sum() > 0.0:
                open_mix = left.astype(np.float64)
            takes = np.minimum(rng.multinomial(due, open_mix / open_mix.sum()), left)
            for column in np.flatnonzero(takes):
                stop = left[column]
                pieces.append(stock[column][stop - takes[column] : stop])
            left -= takes
            due -= int(takes.sum())
        shares[party] = rng.permutation(np.concatenate(pieces))
    return shares


def _dirichlet(size: int, alpha: float, rng: np.random.Generator) -> F64:
    mix: F64 = rng.dirichlet(np.full(size, alpha))
    if np.isfinite(mix).all() and mix.sum() > 0.5:
        return mix
    # Beyond the range of floating point the draw is its limit: one class, or all alike.
    if alpha < 1.0:
        one_class: F64 = np.eye(size)[rng.integers(size)]
        return one_class
    return np.full(size, 1.0 / size)


def _by_class_shares(labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
    """Each class is cut in proportion to uniform draws; all pieces end to end are cut into equal parts.

    Xiang et al. 2023, Algorithm 4 (GetNonIID). The pieces lie party by party and within a party class by
    class, so that the last cut takes whole classes from one party to the next: few hold all of them. The
    paper's parts have ceil(n / parties) samples and the last ones what is left, which may be nothing; here
    sizes differ by at most one, which is the same where the number of parties divides that of samples.
    """
    pieces: list[list[I64]] = [[] for _ in range(parties)]
    for label in np.unique(labels):
        samples = rng.permutation(np.flatnonzero(labels == label))
        # In (0, 1], so that not all of them can be 0.
        sizes = largest_remainders(len(samples), 1.0 - rng.random(parties))
        for own, piece in zip(pieces, _cut(samples, sizes), strict=True):
            own.append(piece)
    line = np.concatenate([piece for own in pieces for piece in own])
    return [rng.permutation(part) for part in _cut(line, _even_sizes(len(labels), parties))]


def _log_normal_sizes(total: int, parties: int, sigma: float, rng: np.random.Generator) -> I64:
    """One sample each, the rest in proportion to exp(sigma z), z ~ N(0, 1), by largest remainders."""
    exponents = sigma * rng.standard_normal(parties)
    return 1 + largest_remainders(total - parties, np.exp(exponents - exponents.max()))


def _multinomial_sizes(total: int, parties: int, config: LogNormalDirichlet, rng: np.random.Generator) -> I64:
    """The ``parties`` largest of the drawn sizes, in the order of the draw; the largest has the rest, too."""
    if parties > config.drawn:
        raise ConfigError(
            "data.partition.drawn",
            f"{config.drawn} sizes are drawn for {parties} parties",
            f"{parties} or more, or fewer parties",
        )
    weights = np.exp(config.mu + config.sigma * rng.standard_normal(config.drawn))
    drawn: I64 = rng.multinomial(total, rng.dirichlet(weights)).astype(np.int64)
    sizes = np.maximum(1, drawn[np.sort(np.argsort(-drawn, kind="stable")[:parties])])
    left = total - int(sizes.sum())
    sizes[sizes.argmax()] += max(0, left)
    while left < 0:
        largest = sizes.argmax()
        taken = min(-left, int(sizes[largest]) - 1)
        sizes[largest] -= taken
        left += taken
    return sizes


def largest_remainders(total: int, weights: F64) -> I64:
    """Whole numbers that add up to ``total``, in proportion to ``weights``, f64 ``(k,)``, not all 0.

    Each is its exact share, rounded down, or up where the rounded off parts are largest (Hamilton's method).
    """
    ideal = total * (weights / weights.sum())
    sizes: I64 = np.floor(ideal).astype(np.int64)
    missing = total - int(sizes.sum())
    sizes[np.argsort(sizes - ideal, kind="stable")[:missing]] += 1
    return sizes


def _by_role(roles: I64, parties: int, rng: np.random.Generator) -> list[I64]:
    shares = [rng.permutation(np.flatnonzero(roles == role)) for role in range(parties)]
    empty = sum(not len(own) for own in shares)
    if empty:
        raise ConfigError(
            "data.partition",
            f"{empty} of {parties} roles would hold no sample",
            "raise data.train_limit, lower data.server_fraction or use fewer parties",
        )
    return shares
