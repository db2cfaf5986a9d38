"""Gauss-Jordan elimination modulo a prime, row by row, as an immutable value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from securefl.base.arrays import I64
from securefl.base.errors import UsageError
from securefl.methods.leakage import modular

_BLOCK = 32
"""Number of new rows that are collected before one matrix product eliminates them from the old rows."""


@dataclass(frozen=True, eq=False)
class Echelon:
    """Row space of the rows so far.

    ``basis`` and ``fresh`` hold residues, ``(rows, width)``. A row of either has 1 at its own pivot and 0 at
    the others of its block. Fresh rows are also 0 at the old pivots, while old rows may have entries at fresh
    pivots.
    """

    prime: int
    width: int
    basis: I64
    pivots: tuple[int, ...]
    fresh: I64
    fresh_pivots: tuple[int, ...]

    @classmethod
    def empty(cls, prime: int, width: int) -> Echelon:
        """Return the echelon without rows, over ``width`` columns."""
        none = np.zeros((0, width), np.int64)
        return cls(prime, width, none, (), none, ())

    @property
    def rank(self) -> int:
        """Number of independent rows modulo the prime, at most the rank over the rationals."""
        return len(self.pivots) + len(self.fresh_pivots)

    def append(self, row: I64) -> Echelon:
        """Return the echelon with one more row of residues, ``(width,)``; the same object if it is dependent.

        Raises:
            UsageError: wrong shape or dtype.
        """
        if row.shape != (self.width,) or row.dtype != np.int64:
            raise UsageError(
                f"row must be an int64 vector of length {self.width}, found {row.dtype} of shape {row.shape}"
            )
        rest = self._less(row, self.basis, self.pivots)
        rest = self._less(rest, self.fresh, self.fresh_pivots)
        places = np.flatnonzero(rest)
        if not len(places):
            return self
        pivot = int(places[0])
        scale = pow(int(rest[pivot]), -1, self.prime)
        rest = modular.times(rest, np.array([scale], np.int64), self.prime)
        fresh = _eliminate(self.fresh, (pivot,), rest[None, :], self.prime)
        grown = replace(
            self, fresh=np.concatenate([fresh, rest[None, :]]), fresh_pivots=(*self.fresh_pivots, pivot)
        )
        return grown.settled if len(grown.fresh_pivots) >= _BLOCK else grown

    def _less(self, row: I64, rows: I64, pivots: tuple[int, ...]) -> I64:
        factors = row[list(pivots)]
        used = np.flatnonzero(factors)
        if not len(used):
            return row
        # For rows of zeros and ones the factors of old rows are 1: a sum instead of a product.
        if (factors[used] == 1).all():
            rest: I64 = row - modular.total(rows[used], self.prime)
        else:
            rest = row - modular.product(factors[None, used], rows[used], self.prime)[0]
        return rest + (rest < 0) * self.prime

    @cached_property
    def settled(self) -> Echelon:
        """Same row space in reduced form: every row is 0 at other rows' pivots, and no row is fresh."""
        if not self.fresh_pivots:
            return self
        basis = _eliminate(self.basis, self.fresh_pivots, self.fresh, self.prime)
        return replace(
            self,
            basis=np.concatenate([basis, self.fresh]),
            pivots=self.pivots + self.fresh_pivots,
            fresh=self.fresh[:0],
            fresh_pivots=(),
        )

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Columns without a pivot, ascending."""
        taken = {*self.pivots, *self.fresh_pivots}
        return tuple(column for column in range(self.width) if column not in taken)

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Columns whose unit vector is in the row space, ascending: their reduced row has no other entry."""
        whole = self.settled
        alone = np.flatnonzero(~whole.basis[:, list(whole.free)].any(axis=1))
        return tuple(sorted(whole.pivots[k] for k in alone))

    def kernel_image(self, functionals: I64) -> I64:
        """Return ``W @ functionals`` for the basis W of the null space given by the free columns.

        A vector v is in the row space exactly if v @ W = 0. Row i of W, ``(width, width - rank)``, belongs to
        party i; ``functionals`` are ``(width - rank, d)`` residues.
        """
        whole = self.settled
        image = np.zeros((self.width, functionals.shape[1]), np.int64)
        image[list(whole.free)] = functionals
        down = modular.product(whole.basis[:, list(whole.free)], functionals, self.prime)
        image[list(whole.pivots)] = (self.prime - down) * (down != 0)
        return image


def _eliminate(rows: I64, pivots: tuple[int, ...], by: I64, prime: int) -> I64:
    """Eliminate ``by``, with ones at ``pivots``, from ``rows``, which then are 0 there."""
    factors = rows[:, list(pivots)]
    touched, columns = np.flatnonzero(factors.any(axis=1)), np.flatnonzero(by.any(axis=0))
    if not len(touched):
        return rows
    cleared = rows.copy()
    place = np.ix_(touched, columns)
    taken = (modular.times if len(pivots) == 1 else modular.product)(factors[touched], by[:, columns], prime)
    rest = rows[place] - taken
    cleared[place] = rest + (rest < 0) * prime
    return cleared
