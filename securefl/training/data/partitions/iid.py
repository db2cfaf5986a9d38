"""Even split: the same distribution for everybody."""

from __future__ import annotations

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64
from securefl.training.data import apportion


class Iid(scenario.Partition, tag="iid", frozen=True, kw_only=True):
    """Every party draws from the same distribution; sizes differ by at most one."""

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
        return apportion.cut(rng.permutation(len(labels)), apportion.even_sizes(len(labels), parties))
