"""Parts of one's own: a rule, an attack, a data set and a partition, each in about 15 lines.

A scenario names them `clinic:Name` (see `clinic.toml`); this file lies beside it.
"""

import numpy as np

from securefl import AggregationResult, ClusterMeans, Partition, Rule, UpdateAttack


class Halfway(Rule, frozen=True, kw_only=True):
    """The mean of the inner half of the cluster means, coordinate by coordinate."""

    def withstands(self, clusters: int) -> int:
        return clusters // 4

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        ordered = np.sort(stack.means, axis=0)
        quarter = stack.clusters // 4
        inner = ordered[quarter : stack.clusters - quarter]
        return AggregationResult(inner.mean(axis=0), np.ones(stack.clusters, dtype=bool))


class Freeze(UpdateAttack, frozen=True, kw_only=True):
    """Take back part of what the honest parties learn: the party's own update, backwards."""

    strength: float = 1.0

    def craft(self, update: np.ndarray, before: np.ndarray, entropy: object) -> np.ndarray:
        return -self.strength * update


class ByWard(Partition, frozen=True, kw_only=True):
    """Wards one after the other: sorted by class, then cut, so that each party sees few of them."""

    def split(self, labels: np.ndarray, parties: int, rng: np.random.Generator) -> list[np.ndarray]:
        return np.array_split(np.argsort(labels, kind="stable"), parties)


def measurements() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two kinds of patients, told apart by 16 noisy measurements: 1,200 to learn from, 400 to test on."""
    rng = np.random.default_rng(7)
    kind = rng.integers(0, 2, 1_600)
    profile = rng.normal(size=16)
    values = (rng.normal(size=(1_600, 16)) + np.outer(2 * kind - 1, profile) / 2).astype(np.float32)
    return values[:1_200], kind[:1_200], values[1_200:], kind[1_200:]
