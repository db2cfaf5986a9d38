"""Dirichlet partition."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64, I64
from securefl.training.data.partition import even_sizes


class Dirichlet(scenario.Partition, tag="dirichlet", frozen=True, kw_only=True):
    """Class shares of each party drawn from a symmetric Dirichlet distribution; small ``alpha`` is uneven."""

    by_label = True
    alpha: scenario.PositiveReal
    """Concentration; a small value is uneven."""

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
        """Split evenly: each party draws its class mix q ~ Dir(alpha) and samples from q.

        Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
        Classification" (arXiv 1909.06335), section 3, with a uniform prior. An exhausted class is left out of
        later mixes, so the parties served last follow their mix least; the order of service is random.
        """
        classes = np.unique(labels)
        stock = [rng.permutation(np.flatnonzero(labels == label)) for label in classes]
        left = np.array([len(samples) for samples in stock], dtype=np.int64)
        sizes = even_sizes(len(labels), parties)
        shares: list[I64] = [np.empty(0, dtype=np.int64)] * parties
        for party in rng.permutation(parties):
            mix = _dirichlet(len(classes), self.alpha, rng)
            pieces = []
            due = int(sizes[party])
            while due:
                open_mix = np.where(left > 0, mix, 0.0)
                if not open_mix.sum() > 0.0:
                    open_mix = left.astype(np.float64)
                takes = np.minimum(rng.multinomial(due, open_mix / open_mix.sum()), left)
                for column in np.flatnonzero(takes):
                    stop = left[column]
                    pieces.append(stock[column][stop - takes[column] : stop])
                left -= takes
                due -= int(takes.sum())
            shares[party] = rng.permutation(np.concatenate(pieces))
        return shares


def _dirichlet(size: int, alpha: float, rng: np.random.Generator) -> F64:
    mix: F64 = rng.dirichlet(np.full(size, alpha))
    if np.isfinite(mix).all() and mix.sum() > 0.5:
        return mix
    # Beyond floating point the draw is its limit: one class, or all alike.
    if alpha < 1.0:
        one_class: F64 = np.eye(size)[rng.integers(size)]
        return one_class
    return np.full(size, 1.0 / size)
