"""Leverage of all parties at once, for equal noise: how close the sums come to each single update.

Party i's leverage is the diagonal element i of the projection P = A^+ A on the row space. It is 1 / h in one
sum of h members, and 1 for an exposed party. Noise of variance s^2, added once by each party, hides an update
like s^2 / leverage on an update opened alone. See :func:`securefl.methods.privacy.exposure.leverage` for
unequal noise.
"""

import math

import numpy as np

from securefl.base import sums
from securefl.base.arrays import F64, I64
from securefl.base.errors import UsageError
from securefl.methods.leakage.ledger import LeakageLedger

MOST_COLLUDERS = 2
"""Largest number of unnamed colluders whose sets are tried, unless the sums have no party in common."""
BUDGET = 100_000_000
"""Largest number of steps, N^2 for each set of colluders: some 0.5 s for every party before it releases."""

_NOTHING_LEFT = 1e-9
"""Variance, relative to 1, below which the party's noise counts as known."""


def computable(ledger: LeakageLedger, colluders: int) -> bool:
    """Return True if :func:`leverages` supports this number of colluders."""
    width = len(ledger.parties)
    affordable = colluders <= MOST_COLLUDERS and math.comb(width, colluders) * width**2 <= BUDGET
    return affordable or _disjoint(ledger)


def leverages(ledger: LeakageLedger, colluders: int = 0) -> F64:
    """Return the leverage of each party, ``(N,)`` in [0, 1], with the worst set of ``colluders``.

    Colluders know their own updates: their columns count as deleted. Parties in no sum have 0, exposed ones
    exactly 1; others are accurate to about 1e-12.

    Raises:
        UsageError: more colluders than :func:`computable`.
    """
    if not computable(ledger, colluders):
        raise UsageError(
            f"colluders must be 0 to {MOST_COLLUDERS}, fewer in large ledgers; found {colluders} among"
            f" {len(ledger.parties)} parties"
        )
    found = np.zeros(len(ledger.parties))
    if _disjoint(ledger):
        for row in ledger.openings:
            found[list(row)] = 1 / max(len(row) - colluders, 1)
        return found
    # The exact rank decides which singular values are 0.
    basis = np.linalg.svd(ledger.matrix.astype(np.float64), full_matrices=False)[2][: ledger.echelon.rank]
    known = basis.T @ basis
    found = 1 - _least_variances(
        np.eye(len(found)) - known, np.flatnonzero(ledger.matrix.any(axis=0)), colluders
    )
    found[list(ledger.echelon.units)] = 1.0
    return found.clip(0.0, 1.0)


def _disjoint(ledger: LeakageLedger) -> bool:
    return sums.exact_sum(map(len, ledger.openings)) == len(
        {column for row in ledger.openings for column in row}
    )


def _least_variances(variances: F64, helpers: I64, colluders: int) -> F64:
    """Return each party's remaining unit variance given the sums and the worst ``colluders`` other parties.

    ``variances``, I - P, is the covariance of unit normals given the sums; a known party conditions it.
    """
    least: F64 = variances.diagonal().copy()
    if not colluders:
        return least
    for place, helper in enumerate(helpers.tolist()):
        own = variances[helper, helper]
        if own < _NOTHING_LEFT:
            continue
        column = variances[:, helper]
        # Conditioning does not depend on the order: each set is tried once.
        given = variances - np.outer(column, column) / own
        rest = _least_variances(given, helpers[place + 1 :], colluders - 1)
        rest[helper] = own
        least = np.minimum(least, rest)
    return least
