"""Rounds drawn with the functions that runs use, to hold predictions against."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from securefl.base.ids import PartyId
from securefl.lab.planning.design import Shape
from securefl.lab.planning.freezing import drawn_clusters
from securefl.methods.attacks.assignment import party_names
from securefl.methods.clustering.survivors import survivor_set

ERROR = 1e-5
"""Probability that a correct prediction fails one comparison. Seeds are fixed, so that it fails always or
never."""


@dataclass(frozen=True)
class Round:
    """One round: who is where, and who drops out."""

    clusters: Mapping[tuple[int, int], tuple[PartyId, ...]]
    atoms: tuple[tuple[PartyId, ...], ...]
    dropped: frozenset[PartyId]

    def alive(self, members: tuple[PartyId, ...]) -> int:
        """Members that are not lost to dropouts of their own or in their atoms."""
        gone = set(self.dropped)
        for atom in self.atoms:
            if gone.intersection(atom):
                gone.update(atom)
        return len(set(members) - gone)

    def lost(self, min_survivors: int) -> frozenset[tuple[int, int]]:
        """Clusters that lose too many members to dropouts alone."""
        return frozenset(key for key, members in self.clusters.items() if self.alive(members) < min_survivors)

    def closed(self, min_survivors: int) -> frozenset[tuple[int, int]]:
        """Clusters that the freeze leaves without members."""
        sent = {k: [m for m in members if m not in self.dropped] for k, members in self.clusters.items()}
        counted = survivor_set(self.clusters, sent, min_survivors, self.atoms)
        return frozenset(key for key, members in self.clusters.items() if not counted.intersection(members))


def rounds(parties: int, shape: Shape, dropout: float, trials: int) -> Iterator[Round]:
    """Independent rounds of runs of their own: each has other atoms."""
    names = party_names(parties)
    generator = np.random.default_rng([parties, shape.size, shape.reclusterings, trials])
    for _ in range(trials):
        drawn = drawn_clusters(generator.bytes(32), names, shape)
        out = generator.random(parties) < dropout
        yield Round(
            {(r, j): members for r, row in enumerate(drawn.clusters) for j, members in enumerate(row)},
            drawn.atoms,
            frozenset(name for name, gone in zip(names, out, strict=True) if gone),
        )


def agrees(hits: int, trials: int, probability: float) -> bool:
    """Whether so many hits are within the binomial error of a predicted probability, exactly."""
    if probability in {0.0, 1.0}:
        return hits == trials * probability
    logs = np.array(
        [
            math.lgamma(trials + 1)
            - math.lgamma(n + 1)
            - math.lgamma(trials - n + 1)
            + n * math.log(probability)
            + (trials - n) * math.log1p(-probability)
            for n in range(trials + 1)
        ]
    )
    masses = np.exp(logs)
    return bool(min(masses[: hits + 1].sum(), masses[hits:].sum()) > ERROR / 2)


def alike(hits: int, trials: int, others: int, other_trials: int) -> bool:
    """Whether two samples may have one probability: normal approximation of their difference."""
    pooled = (hits + others) / (trials + other_trials)
    deviation = math.sqrt(pooled * (1 - pooled) * (1 / trials + 1 / other_trials))
    # 4.42 standard deviations: two-sided probability of 1e-5.
    return abs(hits / trials - others / other_trials) <= 4.42 * max(deviation, 1 / trials)
