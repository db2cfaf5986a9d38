"""Classes cut in proportion to uniform draws."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64
from securefl.training.data import partition


class ClassShares(scenario.Partition, tag="class-shares", frozen=True, kw_only=True):
    """Each class is cut in proportion to uniform draws, one per party; then sizes are made equal.

    Xiang et al. 2023, Algorithm 4 (GetNonIID), which has no parameters but the number of parties.
    """

    by_label = True

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
        """Each class is cut in proportion to uniform draws; all pieces end to end are cut into equal parts.

        Xiang et al. 2023, Algorithm 4 (GetNonIID). The pieces lie party by party and within a party class by
        class, so that the last cut takes whole classes from one party to the next: few hold all of them. The
        paper's parts have ceil(n / parties) samples and the last ones what is left, which may be nothing;
        here sizes differ by at most one, which is the same where the number of parties divides that of
        samples.
        """
        pieces: list[list[I64]] = [[] for _ in range(parties)]
        for label in np.unique(labels):
            samples = rng.permutation(np.flatnonzero(labels == label))
            # In (0, 1], so that not all of them can be 0.
            sizes = partition.largest_remainders(len(samples), 1.0 - rng.random(parties))
            for own, piece in zip(pieces, partition.cut(samples, sizes), strict=True):
                own.append(piece)
        line = np.concatenate([piece for own in pieces for piece in own])
        return [
            rng.permutation(part) for part in partition.cut(line, partition.even_sizes(len(labels), parties))
        ]
