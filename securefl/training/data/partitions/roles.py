"""One speaking role per party."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64
from securefl.base.errors import ConfigError


class ByRole(scenario.Partition, tag="roles", frozen=True, kw_only=True):
    """One speaking role for each party, from the first roles with enough text (``shakespeare`` only)."""

    by_role = True

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
        shares = [rng.permutation(np.flatnonzero(labels == role)) for role in range(parties)]
        empty = sum(not len(own) for own in shares)
        if empty:
            raise ConfigError(
                "data.partition",
                f"{empty} of {parties} roles would have no samples",
                "raise data.train_limit, lower data.server_fraction or use fewer parties",
            )
        return shares
