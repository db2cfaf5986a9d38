"""Smallest support of a combination of the sums: the ledger's minimum distance.

All parties are safe against any f colluders, in groups of at least k, exactly if no support is below f + k
(docs/leakage.md). The problem is hard in general: the search is exhaustive as far as affordable.

Row i of the null space's basis modulo a prime is party i's point in a projective space. S is the support of a
combination exactly if the points of S have a dependency without a zero. A random projection to s dimensions
keeps dependent points dependent. It keeps s independent points independent except with a probability of about
s / prime. So a search in the projection misses no support, and its results are checked.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import I64
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.leakage import modular, proofs
from securefl.methods.leakage.echelon import Echelon
from securefl.methods.leakage.ledger import LeakageLedger
from securefl.methods.leakage.modular import residues


class UnluckyError(Exception):
    """A projection moved a point to infinity: try another one."""


def affine(points: I64, prime: int) -> I64:
    """Divide ``(n, d)`` points by their first coordinate and return the other ones, ``(n, d - 1)``.

    Raises:
        UnluckyError: a first coordinate is 0.
    """
    if not points[:, 0].all():
        raise UnluckyError
    return modular.times(points[:, 1:], modular.inverses(points[:, 0], prime)[:, None], prime)


def seen_from(places: I64, centre: int, prime: int) -> I64:
    """Return the directions of affine points ``(n, d)`` from one of them, points of one dimension less."""
    directions: I64 = places - places[centre]
    directions += (directions < 0) * prime
    return directions


def equal_groups(values: I64) -> list[list[int]]:
    """Return the groups, of two or more, of indices of equal entries of ``values``, ``(n,)``."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(values[order]) != 0]))
    return [group.tolist() for group in np.split(order, starts[1:]) if len(group) > 1]


def lines(places: I64, prime: int) -> Iterator[tuple[int, list[int]]]:
    """Yield lines through three or more affine points ``(n, 2)``, as ``(j, [k, l, ...])`` with j < k < l.

    A line appears for each of its points that two others follow.

    Raises:
        UnluckyError: two points have the same first coordinate.
    """
    count = len(places)
    if count < 3:
        return
    first, second = np.triu_indices(count, 1)
    directions = places[second] - places[first]
    slopes = np.full((count, count), -1, np.int64)
    slopes[first, second] = affine(directions + (directions < 0) * prime, prime)[:, 0]
    ranked = np.sort(slopes, axis=1)
    for j in np.flatnonzero(((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] >= 0)).any(axis=1)).tolist():
        for group in equal_groups(slopes[j, j + 1 :]):
            yield j, [j + 1 + k for k in group]


def dependent_set(points: I64, prime: int) -> tuple[int, ...] | None:
    """Return the first d of the points ``(n, d)`` that are dependent, provided that no d - 1 of them are.

    Costs about C(n, d - 1) steps of some 0.5 microseconds. Raises as :func:`affine` does.
    """
    count, dimensions = points.shape
    if dimensions == 1:
        return next(((int(zero),) for zero in np.flatnonzero(points[:, 0] == 0)), None)
    if count < dimensions:
        return None
    places = affine(points, prime)
    if dimensions == 2:
        return next(((i, j) for i, j, *_ in equal_groups(places[:, 0])), None)
    if dimensions == 3:
        return next(((j, k, m) for j, (k, m, *_) in lines(places, prime)), None)
    for centre in range(count - dimensions + 1):
        directions = seen_from(places[centre:], 0, prime)[1:]
        rest = dependent_set(directions, prime)
        if rest is not None:
            return (centre, *(centre + 1 + k for k in rest))
    return None


ALWAYS = 4
"""Size up to which supports are always searched."""
IN_A_ROUND = 3
"""The same for a search that parties wait for: size 4 takes 6 s for 300 parties, some minutes for 1,000."""
_ORDERS = 8
_TRIES = 8


@dataclass(frozen=True, slots=True)
class LeastSupport:
    """Bounds on the smallest support."""

    parties: tuple[PartyId, ...]
    """Smallest support that was found."""
    at_least: int
    """Lower bound on all supports, except with the doubt of the ledger; a proof if the rank modulo the prime
    is that over the integers."""
    proof: proofs.Combination
    """Combination of the sums with this support, over the integers."""

    @property
    def exact(self) -> bool:
        """True if this is the minimum; otherwise ``len(parties)`` is an upper bound."""
        return len(self.parties) == self.at_least


def least_support(ledger: LeakageLedger, budget: int = 1_000_000) -> LeastSupport | None:
    """Return the smallest support of a nonzero combination; None if no sum is open.

    Args:
        ledger: the sums, without the columns of known colluders.
        budget: largest number of steps, C(N, size - 1) of some 0.5 microseconds, for sizes above 4. The
            default covers all sizes of up to 20 parties.

    Raises:
        UsageError: the prime misleads; use another one.
    """
    if not ledger.echelon.rank:
        return None
    width = len(ledger.parties)
    size = 1
    while size <= ALWAYS or math.comb(width, size - 1) <= budget:
        found = _search(ledger, size)
        if found is not None:
            return _prove_support(ledger, found, size)
        size += 1
    return _prove_support(ledger, min(_samples(ledger), key=len), size)


def searchable(ledger: LeakageLedger, bound: int, budget: int = 1_000_000) -> bool:
    """Return True if :func:`support_below` is affordable in a round: up to size 3, or within the budget."""
    columns, size = len(_unsheltered_columns(ledger, bound)), bound - 1
    return size <= IN_A_ROUND or math.comb(columns, min(size, columns) - 1 if columns else 0) <= budget


def support_below(ledger: LeakageLedger, bound: int) -> tuple[PartyId, ...] | None:
    """Return a smallest support of fewer than ``bound`` parties, or None, by exhaustive search.

    It is right except with the doubt of the ledger. Parties opened only together with at least ``bound`` - 1
    others cost no time.
    """
    columns = _unsheltered_columns(ledger, bound)
    for size in range(1, min(bound - 1, len(columns)) + 1):
        found = _search(ledger, size, columns)
        if found is not None:
            return tuple(ledger.parties[columns[place]] for place in found)
    return None


def _unsheltered_columns(ledger: LeakageLedger, bound: int) -> list[int]:
    """Return the nonempty columns that fewer than ``bound`` columns are equal to.

    Combinations have equal entries in equal columns, so a smaller support contains no other columns.
    """
    sums: dict[int, list[int]] = {}
    for number, row in enumerate(ledger.openings):
        for column in row:
            sums.setdefault(column, []).append(number)
    alike = Counter(map(tuple, sums.values()))
    return sorted(column for column, numbers in sums.items() if alike[tuple(numbers)] < bound)


def _prove_support(ledger: LeakageLedger, columns: tuple[int, ...], at_least: int) -> LeastSupport:
    proof = proofs.prove_support(ledger, columns)
    if proof is None:
        raise UsageError(
            f"cannot prove the support of {len(columns)} parties: it holds modulo the prime only; try"
            " another prime"
        )
    return LeastSupport(tuple(ledger.parties[k] for k in proof.support), at_least, proof)


def image(ledger: LeakageLedger, dimensions: int, attempt: int) -> I64:
    """Return the parties' points ``(N, dimensions)``, projected at random, or embedded."""
    seed = f"{ledger.prime} image {dimensions} {attempt}".encode()
    return ledger.echelon.kernel_image(
        residues(seed, (ledger.kernel_dimension, dimensions), ledger.prime),
    )


def _search(ledger: LeakageLedger, size: int, columns: list[int] | None = None) -> tuple[int, ...] | None:
    """Return indices, among all or these columns, of the first support of this size, if none is smaller."""
    for attempt in range(_TRIES):
        points = image(ledger, size, attempt)
        try:
            return dependent_set(points if columns is None else points[columns], ledger.prime)
        except UnluckyError:
            continue
    raise UsageError(
        "cannot search the parties' points: no random projection was regular modulo the prime;"
        " try another prime"
    )


def _samples(ledger: LeakageLedger) -> list[tuple[int, ...]]:
    """Return supports of the reduced rows under several orders of the columns."""
    width, matrix = len(ledger.parties), ledger.matrix
    found = []
    for attempt in range(_ORDERS):
        keys = residues(f"{ledger.prime} order {attempt}".encode(), (width,), ledger.prime)
        order = np.argsort(keys)
        echelon = Echelon.empty(ledger.prime, width)
        for number in ledger.independent:
            echelon = echelon.append(matrix[number][order])
        row = min(echelon.settled.basis, key=np.count_nonzero)
        found.append(tuple(sorted(order[np.flatnonzero(row)].tolist())))
    return found
