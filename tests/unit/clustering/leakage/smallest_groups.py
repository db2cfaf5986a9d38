"""The smallest groups whose sum is determined: a set of fewer than k parties breaches k-anonymity.

Such a sum is a row of equal entries in the row space: a set of parties whose points (see
:mod:`securefl.methods.leakage.support`) add up to 0. Sets are halved, and halves meet by value.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import I64
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.leakage.ledger import LeakageLedger
from securefl.methods.leakage.proofs import Combination
from securefl.methods.leakage.support import image
from tests.unit.clustering.leakage.exact_proofs import prove_sum


@dataclass(frozen=True, slots=True)
class Group:
    """A set of parties whose sum the opened sums determine."""

    parties: tuple[PartyId, ...]
    proof: Combination
    """A combination of the sums that is a multiple of the set's own sum, over the integers."""


def smallest_group(ledger: LeakageLedger, below: int, budget: int = 2_000_000) -> Group | None:
    """The smallest determined group of fewer than ``below`` parties: an exhaustive search.

    None says that there is no such group, right but for the doubt of the ledger. It is a proof where
    :func:`tests.unit.clustering.leakage.exact_proofs.rank_is_proved`.

    Args:
        ledger: the sums, without the columns of known colluders.
        below: k, the smallest group that may be determined.
        budget: most half sets, C(N, half of k - 1 rounded up), that are held at a time (32 bytes each).

    Raises:
        UsageError: the search exceeds the budget, or the prime misled.
    """
    width = len(ledger.parties)
    largest = min(below - 1, width)
    if math.comb(width, -(-max(largest, 0) // 2)) > budget:
        raise UsageError(f"groups of {largest} of {width} parties are more than {budget} halves")
    # Two functionals: 122 bits, so that sets meet by chance with a probability of 2^-120 a pair.
    points = image(ledger, 2, 0)
    for size in range(1, largest + 1):
        for columns in _meeting(points, size, ledger.prime):
            proof = prove_sum(ledger, columns)
            if proof is not None:
                return Group(tuple(ledger.parties[k] for k in columns), proof)
    return None


def _meeting(points: I64, size: int, prime: int) -> list[tuple[int, ...]]:
    """Sets of ``size`` points ``(n, 2)`` that add up to 0."""
    high, low = -(-size // 2), size // 2
    upper, lower = (_halves(len(points), half) for half in (high, low))
    sums = _sums(points, upper, prime)
    wanted = -_sums(points, lower, prime) % prime
    order = np.argsort(wanted[:, 0], kind="stable")
    starts = np.searchsorted(wanted[order, 0], sums[:, 0], side="left")
    ends = np.searchsorted(wanted[order, 0], sums[:, 0], side="right")
    found = []
    for number in np.flatnonzero(ends > starts).tolist():
        for other in order[starts[number] : ends[number]].tolist():
            columns = {*upper[number].tolist(), *lower[other].tolist()}
            if len(columns) == size and sums[number, 1] == wanted[other, 1]:
                found.append(tuple(sorted(columns)))
    return list(dict.fromkeys(found))


def _halves(count: int, size: int) -> I64:
    flat = itertools.chain.from_iterable(itertools.combinations(range(count), size))
    sets = math.comb(count, size)
    return np.fromiter(flat, np.int64, sets * size).reshape(sets, size)


def _sums(points: I64, sets: I64, prime: int) -> I64:
    sums = np.zeros((len(sets), points.shape[1]), np.int64)
    for members in sets.T:
        sums = (sums + points[members]) % prime
    return sums
