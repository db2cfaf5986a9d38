"""A server that knows the atoms, and announces those that suit it, has no more than headers print (ADR 0034).

Atoms are drawn anew until the server lets parties keep them; from then on it chooses among whole atoms. When
to let them is a dynamic programme over the draws that are left, on sampled atoms: the server's best, but for
the draws of a round that it loses with the first one that it keeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from securefl.methods.clustering.adaptive_server import p_alone
from securefl.methods.clustering.sizes import dealt, max_cluster_size, quorum_of
from securefl.methods.feasibility.limits import check
from securefl.scenario.load import parse_scenario

SAMPLES = 5_000


@dataclass(frozen=True)
class Atoms:
    parties: int
    colluders: int
    size: int
    """a: members of an atom."""
    per_cluster: int
    """g: atoms of a cluster, at least."""
    threshold: int
    largest: int
    rounds: int

    @property
    def number(self) -> int:
        return self.parties // self.size

    def fits(self, atoms: int) -> bool:
        return max(map(len, dealt([1] * atoms, self.per_cluster))) * self.size <= self.largest

    def met(self, own: int, others: Sequence[int]) -> float:
        """P(the victim, with ``own`` colluders in its atom, has as many mates as the threshold in a draw)."""
        chance, atoms = 0.0, 1 + len(others)
        clusters = [len(places) for places in dealt([1] * atoms, self.per_cluster)]
        for size in set(clusters):
            ways = {(0, own): 1}
            for inside in others:
                for (taken, mates), count in sorted(ways.items(), reverse=True):
                    if taken < size - 1:
                        key = (taken + 1, mates + inside)
                        ways[key] = ways.get(key, 0) + count
            full = ((mates, count) for (taken, mates), count in ways.items() if taken == size - 1)
            hits = sum(count for mates, count in full if mates >= self.threshold)
            chance += clusters.count(size) * size / atoms * hits / math.comb(atoms - 1, size - 1)
        return chance

    def sampled(self, generator: np.random.Generator) -> tuple[float, float]:
        """P(the victim is had in a fresh draw of everybody), and in one draw once these atoms are kept."""
        marked = np.zeros(self.parties - 1, int)
        marked[generator.permutation(self.parties - 1)[: self.colluders]] = 1
        own = int(marked[: self.size - 1].sum())
        if own == self.size - 1:
            return 1.0, 1.0
        others = sorted(map(int, marked[self.size - 1 :].reshape(-1, self.size).sum(1)), reverse=True)
        fewest = -(-quorum_of(self.parties, self.colluders) // self.size)
        kept = [self.met(own, others[: n - 1]) for n in range(fewest, self.number + 1) if self.fits(n)]
        return self.met(own, others) if self.fits(self.number) else 0.0, max(kept, default=0.0)

    def best(self) -> tuple[float, float]:
        """The server's chance in the run, and four deviations of it."""
        generator = np.random.default_rng(1)
        fresh, kept = np.array([self.sampled(generator) for _ in range(SAMPLES)]).T
        value, once = 0.0, fresh.mean()
        for left in range(3 * self.rounds):
            later = np.maximum(value, 1 - (1 - kept) ** left)
            value = float(np.mean(fresh + (1 - fresh) * later))
        error = 4 * 3 * self.rounds * math.sqrt(once * (1 - once) / SAMPLES) * (1 - value)
        return value, error


@pytest.mark.parametrize(
    ("numbers", "f", "rounds"),
    [
        ((40, 10, 4, 2, 5), 1, 3),
        ((40, 10, 4, 2, 6), 2, 3),
        ((40, 12, 4, 2, 7), 2, 3),
        ((24, 9, 4, 2, 6), 2, 1),
        ((60, 6, 3, 2, 5), 1, 3),
        ((48, 9, 4, 3, 8), 2, 3),
        ((90, 10, 3, 3, 6), 1, 4),
    ],
)
def test_no_play_with_atoms_is_better_than_what_is_printed(
    numbers: tuple[int, int, int, int, int], f: int, rounds: int
) -> None:
    parties, colluders, size, per_cluster, threshold = numbers
    sums = f"threshold={threshold},min_survivors={size * per_cluster},colluders={colluders}"
    scenario = parse_scenario(
        f'name="atoms"\nparties={parties}\n[clustering]\nsize={size * per_cluster}\natoms={size}\n[stop]\n'
        f"rounds={rounds}",
        (f"secure_sum={{server='active',{sums},colluders_per_cluster={f},k_anonymity=2}}",),
    )
    check(scenario)
    largest = max_cluster_size(scenario)
    play = Atoms(parties, colluders, size, per_cluster, threshold, largest, rounds)
    best, error = play.best()
    _, printed = p_alone(scenario)
    assert best <= printed + error
    assert best > 0
