"""Joint disclosure of R sums of the same update: formulas, and the ledger on drawn clusters."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass

from securefl.base.ids import PartyId
from securefl.lab.planning.design import Shape
from securefl.methods import attacks, clustering, leakage


@dataclass(frozen=True, slots=True)
class Disclosure:
    """Disclosure in one global round in which nobody drops out: means over drawn clusters."""

    exposed: float
    """Parties that the server and q random colluders expose if all R assignments are opened."""
    admitted: float
    """Assignments of R that parties open: they withhold those that leave a group below f + k."""
    leverage: float
    """Mean over honest parties, with q random colluders. 1: noise that is added once hides nothing more."""
    highest: float
    """The largest leverage of any of them in any draw."""


def dimensions_left(parties: int, shape: Shape, clusters: int) -> int:
    """N - rank, the dimension of what no sum shows, as a rule; without atoms as many colluders end it."""
    return parties - _rank(parties, shape, clusters)


def mean_leverage(parties: int, shape: Shape, clusters: int) -> float:
    """The rank over the parties, as a rule: at most 1, and 1 over the size of an atom.

    Leverages are the diagonal of a projector, so that their sum is its rank, whatever was drawn.
    """
    return _rank(parties, shape, clusters) / parties


def _rank(parties: int, shape: Shape, clusters: int) -> int:
    """min(N / a, 1 + R (C - 1)), as a rule."""
    return min(shape.units(parties), 1 + shape.openings * (clusters - 1))


@functools.lru_cache(maxsize=256)
def disclosed(parties: int, colluders: int, shape: Shape, f: int, k: int, draws: int) -> Disclosure:
    """Draw the clusters of ``draws`` rounds, and ask the ledger what their sums determine.

    Takes 0.1 to 0.5 s a draw for 100 parties. The same arguments give the same answer.

    Args:
        parties: N.
        colluders: q, who are the first ones: clusters are random, so that it does not matter who.
        shape: R sums of the same update.
        f: colluders in a combination of sums that the parties' limits allow for.
        k: their k-anonymity.
        draws: at least 1.
    """
    names = attacks.party_names(parties)
    limits = dict.fromkeys(names, leakage.LeakageLimits(group=k, colluders=f))
    exposed, admitted, mean, highest = [], [], [], 0.0
    for draw in range(draws):
        seed = hashlib.sha256(f"securefl/1/plan clusters {draw}".encode()).digest()
        drawn = drawn_clusters(seed, names, shape)
        kept = leakage.admit(drawn, names, limits, round_=0, seed=seed, new_work=False)
        (ledger,) = leakage.planned(drawn, names, 0, leakage.prime_from(seed), new_work=False)
        ledger = ledger.without(names[:colluders]) if colluders else ledger
        own = leakage.leverages(ledger)
        exposed.append(len(ledger.exposed))
        admitted.append(len(kept.admitted))
        mean.append(float(own.mean()))
        highest = max(highest, float(own.max()))
    return Disclosure(_mean(exposed), _mean(admitted), _mean(mean), highest)


def drawn_clusters(seed: bytes, names: tuple[PartyId, ...], shape: Shape) -> clustering.Assignment:
    """A round's clusters as a run draws them when everybody is there; the seed founds the atoms, too."""
    n = len(names)
    if shape.atoms == 1:
        return clustering.draw_assignment(seed, names, n, shape.size, shape.reclusterings)
    atoms = clustering.form_atoms(seed, names, shape.atoms)
    return clustering.draw_unions(
        seed, atoms, shape.units_per_cluster, shape.reclusterings, fewest=n, wanted=n, largest=n
    )


def _mean(values: list[int] | list[float]) -> float:
    return math.fsum(values) / len(values)
