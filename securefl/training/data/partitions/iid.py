"""Even split."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64
from securefl.training.data import partition


class Iid(scenario.Partition, tag="iid", frozen=True, kw_only=True):
    """Every party draws from the same distribution; sizes differ by at most one."""

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
        return partition.cut(rng.permutation(len(labels)), partition.even_sizes(len(labels), parties))
