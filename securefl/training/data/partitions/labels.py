"""Few classes per party."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64
from securefl.base.errors import ConfigError
from securefl.training.data import partition


class LabelsPerParty(scenario.Partition, tag="labels", frozen=True, kw_only=True):
    """Each party holds samples of only ``labels`` classes."""

    by_label = True
    labels: scenario.Positive
    """Classes per party."""

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
        """Give each party ``labels`` classes and each class about equally many holders; split classes evenly.

        Classes without holders stay unused.
        """
        classes = np.unique(labels)
        if self.labels > len(classes):
            raise ConfigError(
                "data.partition.labels",
                f"{self.labels} classes per party, but the data has {len(classes)}",
                f"set at most {len(classes)}",
            )
        holders: list[list[int]] = [[] for _ in classes]
        taken = np.zeros(len(classes), dtype=np.int64)
        for party in range(parties):
            # With the fewest holders first, holders per class differ by at most one.
            for column in np.lexsort((rng.random(len(classes)), taken))[: self.labels]:
                holders[column].append(party)
                taken[column] += 1
        pieces: list[list[I64]] = [[] for _ in range(parties)]
        sizes = np.zeros(parties, dtype=np.int64)
        for label, members in zip(classes, holders, strict=True):
            if not members:
                continue
            samples = rng.permutation(np.flatnonzero(labels == label))
            # Members with the fewest samples so far get the larger pieces.
            poorest = sorted(members, key=lambda member: (int(sizes[member]), member))
            for member, piece in zip(
                poorest, partition.cut(samples, partition.even_sizes(len(samples), len(members))), strict=True
            ):
                pieces[member].append(piece)
                sizes[member] += len(piece)
        if not sizes.all():
            raise ConfigError(
                "data.partition.labels",
                f"{int(np.count_nonzero(sizes == 0))} of {parties} parties would have no samples",
                "use fewer parties, more labels per party or a larger data.train_limit",
            )
        return [rng.permutation(np.concatenate(own)) for own in pieces]
