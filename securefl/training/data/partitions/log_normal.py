"""Log-normal sample counts."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64
from securefl.training.data import partition


class LogNormal(scenario.Partition, tag="log-normal", frozen=True, kw_only=True):
    """Sample counts proportional to log-normal draws; every party keeps at least one sample."""

    sigma: scenario.PositiveReal = 1.0
    """Standard deviation of the logarithm."""

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
        # A mean of the logarithms would cancel.
        sizes = _log_normal_sizes(len(labels), parties, self.sigma, rng)
        return partition.cut(rng.permutation(len(labels)), sizes)


def _log_normal_sizes(total: int, parties: int, sigma: float, rng: np.random.Generator) -> I64:
    """Return 1 each, plus the rest in proportion to exp(sigma z), z ~ N(0, 1), by largest remainders."""
    exponents = sigma * rng.standard_normal(parties)
    return 1 + partition.largest_remainders(total - parties, np.exp(exponents - exponents.max()))
