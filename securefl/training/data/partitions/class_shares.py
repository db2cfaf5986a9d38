"""Class shares."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64
from securefl.training.data import partition


class ClassShares(scenario.Partition, tag="class-shares", frozen=True, kw_only=True):
    """Each class is cut in proportion to uniform draws, one per party; then sizes are equalised.

    Xiang et al. 2023, Algorithm 4 (GetNonIID); its only parameter is the number of parties.
    """

    by_label = True

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
        """Cut each class in proportion to uniform draws; cut all pieces end to end into equal parts.

        Pieces are ordered by party, then class, so that the last cut moves whole classes to the next party.
        The paper's parts have ceil(n / parties) samples, and the last may be empty; here sizes differ by at
        most one.
        """
        pieces: list[list[I64]] = [[] for _ in range(parties)]
        for label in np.unique(labels):
            samples = rng.permutation(np.flatnonzero(labels == label))
            # In (0, 1], so that they cannot all be 0.
            sizes = partition.largest_remainders(len(samples), 1.0 - rng.random(parties))
            for own, piece in zip(pieces, partition.cut(samples, sizes), strict=True):
                own.append(piece)
        line = np.concatenate([piece for own in pieces for piece in own])
        return [
            rng.permutation(part) for part in partition.cut(line, partition.even_sizes(len(labels), parties))
        ]
