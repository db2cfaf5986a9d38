"""Freezes under independent dropouts (protocol.md, step 6), and joint disclosure of R sums of one update.

A cluster with fewer than ``min_survivors`` members is lost, and no sum counts its members; with several
reclusterings that can lose further clusters (a cascade).
"""

import functools
import hashlib
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64, I64
from securefl.base.crypto import prg
from securefl.base.ids import PartyId
from securefl.lab.planning.design import Shape
from securefl.methods import attacks, clustering, leakage

Flags = npt.NDArray[np.bool_]

_NEGLIGIBLE = 1e-15
_AT_ONCE = 2_000_000
"""Random words in memory at a time."""


def p_aborted(size: int, min_survivors: int, dropout: float) -> float:
    """Return P(more than ``size - min_survivors`` of ``size`` parties drop out): the cluster is lost."""
    return float(1 - clustering.binomial_law(size, dropout)[: size - min_survivors + 1].sum())


def p_any_lost(parties: int, size: int, min_survivors: int, dropout: float, reclusterings: int) -> float:
    """Return the exact P(dropouts lose a cluster of a round's R assignments).

    With D dropouts (binomial law), an assignment loses no cluster with probability A_D / B_D, the
    coefficients of x^D in the product over clusters of sum_(h <= m - s) C(m, h) (p x)^h (1 - p)^(m - h) and
    in (1 - p + p x)^N. Given the dropouts, the R assignments are independent.
    """
    whole = clustering.binomial_law(parties, dropout)
    kept = _within(parties, size, min_survivors, dropout)
    count = np.arange(len(whole)) < len(kept)
    held = np.zeros_like(whole)
    held[count] = kept[: int(count.sum())]
    sure = whole > _NEGLIGIBLE
    ratio = np.clip(held[sure] / whole[sure], 0.0, 1.0)
    return float(min(1.0, max(0.0, 1 - (whole[sure] * ratio**reclusterings).sum())))


@functools.lru_cache(maxsize=4096)
def _within(parties: int, size: int, min_survivors: int, dropout: float) -> F64:
    """Return P(D parties drop out and no cluster is lost) by D."""
    product = np.ones(1)
    for members in clustering.cluster_sizes(parties, size):
        product = np.convolve(
            product, clustering.binomial_law(members, dropout)[: members - min_survivors + 1]
        )
    return product


@dataclass(frozen=True, slots=True)
class Freezes:
    """Results of simulated freezes."""

    trials: int
    lost: int
    """Freezes that lost a cluster."""
    cascaded: int
    """Freezes that lost a cluster with enough masked inputs."""
    taken: float
    """Mean share of parties that sent their masked input and were not counted."""

    @property
    def p_cascade(self) -> float:
        """Estimated probability of a cascade; its standard error is at most 0.5 / sqrt(trials)."""
        return self.cascaded / self.trials


@functools.lru_cache(maxsize=256)
def sample_freezes(
    parties: int,
    size: int,
    min_survivors: int,
    dropout: float,
    reclusterings: int,
    trials: int,
    seed: int = 0,
) -> Freezes:
    """Simulate ``trials`` freezes with random clusters, reproducibly."""
    sizes = clustering.cluster_sizes(parties, size)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    key = hashlib.sha256(f"securefl/1/plan freezes {seed}".encode()).digest()
    chunk = max(1, _AT_ONCE // (parties * (reclusterings + 1)))
    lost = cascaded = 0
    taken = 0.0
    for start in range(0, trials, chunk):
        count = min(chunk, trials - start)
        words = prg.expand(
            hashlib.sha256(key + start.to_bytes(8, "big")).digest(),
            count * parties * (reclusterings + 1),
            np.uint64,
        ).reshape(reclusterings + 1, count, parties)
        dropped = words[0] < np.uint64(min(2**64 - 1, int(dropout * 2**64)))
        # Sorting by random words is a random permutation: the j-th party is in cluster labels[j].
        places = labels[np.argsort(np.argsort(words[1:], axis=2), axis=2)]
        alive, first, again = _settle(~dropped, places, len(sizes), min_survivors)
        lost += int(first.sum())
        cascaded += int(again.sum())
        taken += float((~dropped & ~alive).mean(axis=1).sum())
    return Freezes(trials, lost, cascaded, taken / trials)


def _settle(
    sent: Flags,
    places: I64,
    clusters: int,
    min_survivors: int,
) -> tuple[Flags, Flags, Flags]:
    """Remove members of small clusters until nothing changes.

    Args:
        sent: True if the masked input arrived, ``(trials, parties)``.
        places: number of the cluster, ``(reclusterings, trials, parties)``.
        clusters: per reclustering.
        min_survivors: fewest members.

    Returns:
        Counted parties, ``(trials, parties)``; by trial, True if a cluster was lost, and True if one was that
        had enough members at first.
    """
    count = sent.shape[0]
    offset = np.arange(count)[:, None] * clusters

    def small(alive: Flags, row: int) -> Flags:
        sizes = np.bincount(
            (places[row] + offset).ravel(), weights=alive.ravel(), minlength=count * clusters
        ).reshape(count, clusters)
        return np.asarray(sizes < min_survivors)

    at_first = [small(sent, row) for row in range(len(places))]
    alive = sent
    while True:
        doomed = [small(alive, row) for row in range(len(places))]
        inside = np.zeros_like(alive)
        for row, bad in enumerate(doomed):
            inside |= np.take_along_axis(bad, places[row], axis=1)
        after = alive & ~inside
        if (after == alive).all():
            break
        alive = after
    first = np.any([bad.any(axis=1) for bad in at_first], axis=0)
    again = np.any([(bad & ~early).any(axis=1) for bad, early in zip(doomed, at_first, strict=True)], axis=0)
    return alive, first, again


@dataclass(frozen=True, slots=True)
class Disclosure:
    """Disclosure in a round without dropouts: means over drawn clusters."""

    exposed: float
    """Parties that the server and q random colluders expose if all R assignments are opened."""
    admitted: float
    """Assignments of R that parties open, without those that leave a group below f + k."""
    leverage: float
    """Mean over honest parties, with q random colluders. 1: noise added once hides nothing more."""
    highest: float
    """Largest leverage of any of them in any draw."""


def dimensions_left(parties: int, shape: Shape, clusters: int) -> int:
    """Return N - rank, the typical dimension that no sum shows; without atoms as many colluders remove it."""
    return parties - _rank(parties, shape, clusters)


def mean_leverage(parties: int, shape: Shape, clusters: int) -> float:
    """Return the typical rank over N.

    Leverages are the diagonal of a projector, so that their sum is its rank.
    """
    return _rank(parties, shape, clusters) / parties


def _rank(parties: int, shape: Shape, clusters: int) -> int:
    """Return the typical rank, min(N / a, 1 + R (C - 1))."""
    return min(shape.units(parties), 1 + shape.openings * (clusters - 1))


@functools.lru_cache(maxsize=256)
def simulate_disclosure(parties: int, colluders: int, shape: Shape, f: int, k: int, draws: int) -> Disclosure:
    """Apply the ledger to the clusters of ``draws`` drawn rounds, reproducibly.

    A draw takes 0.1 to 0.5 s for 100 parties.

    Args:
        parties: N.
        colluders: q.
        shape: R sums of the same update.
        f: colluders in a combination of sums that the parties' limits allow for.
        k: k-anonymity.
        draws: at least 1.
    """
    names = attacks.party_names(parties)
    limits = dict.fromkeys(names, leakage.LeakageLimits(group=k, colluders=f))
    exposed, admitted, mean, highest = [], [], [], 0.0
    for draw in range(draws):
        seed = hashlib.sha256(f"securefl/1/plan clusters {draw}".encode()).digest()
        drawn = drawn_clusters(seed, names, shape)
        kept = leakage.admit(drawn, names, limits, round_=0, seed=seed, new_work=False)
        (ledger,) = leakage.plan_ledgers(drawn, names, 0, leakage.prime_from(seed), new_work=False)
        ledger = ledger.without(names[:colluders]) if colluders else ledger
        own = leakage.leverages(ledger)
        exposed.append(len(ledger.exposed))
        admitted.append(len(kept.admitted))
        mean.append(float(own.mean()))
        highest = max(highest, float(own.max()))
    return Disclosure(_mean(exposed), _mean(admitted), _mean(mean), highest)


def drawn_clusters(seed: bytes, names: tuple[PartyId, ...], shape: Shape) -> clustering.Assignment:
    """Return a round's clusters with all parties present; the seed determines the atoms, too."""
    n = len(names)
    if shape.atoms == 1:
        return clustering.draw_assignment(seed, names, n, shape.size, shape.reclusterings)
    atoms = clustering.form_atoms(seed, names, shape.atoms)
    return clustering.draw_unions(
        seed, atoms, shape.units_per_cluster, shape.reclusterings, fewest=n, wanted=n, largest=n
    )


def _mean(values: list[int] | list[float]) -> float:
    return math.fsum(values) / len(values)
