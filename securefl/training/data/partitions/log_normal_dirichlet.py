"""Multinomial sample counts."""

from typing import Annotated

import numpy as np
from msgspec import Meta

from securefl import scenario
from securefl.base.arrays import I64
from securefl.base.errors import ConfigError
from securefl.training.data.partition import cut


class LogNormalDirichlet(scenario.Partition, tag="log-normal-dirichlet", frozen=True, kw_only=True):
    """Sample counts are multinomial, by shares from a Dirichlet distribution with log-normal parameters.

    Portnoy et al. 2022, section 3.1.1, as in the authors' code: ``drawn`` clients, without those that have no
    samples. The ``parties`` largest remain; a party that would have none gets one sample.
    """

    mu: Annotated[float, Meta(ge=-20, le=20)] = 1.5
    """Mean of the logarithm of the parameters."""
    sigma: Annotated[float, Meta(gt=0, le=20)] = 3.45
    """Standard deviation of that logarithm."""
    drawn: scenario.Positive = 100
    """Number of drawn clients."""

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
        sizes = _multinomial_sizes(len(labels), parties, self, rng)
        return cut(rng.permutation(len(labels)), sizes)


def _multinomial_sizes(total: int, parties: int, config: LogNormalDirichlet, rng: np.random.Generator) -> I64:
    """Return the ``parties`` largest drawn sizes, in the order of the draw."""
    if parties > config.drawn:
        raise ConfigError(
            "data.partition.drawn",
            f"{config.drawn} sizes are fewer than {parties} parties",
            f"set {parties} or more, or fewer parties",
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
