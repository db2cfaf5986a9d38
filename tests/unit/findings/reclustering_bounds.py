"""Bounds of SHARE (arXiv 2110.02940), as corrected in docs/results/what-we-found.md."""

from __future__ import annotations

from securefl.base.errors import UsageError
from securefl.methods.clustering import odds
from securefl.methods.clustering.reclustering import _check, _check_withstood


def p_never_clean(parties: int, byzantine: int, size: int, reclusterings: int) -> float:
    """P(a given benign party is in no clean cluster of a round) = (1 - C(n-1-q, m-1) / C(n-1, m-1))^R.

    Appendix E has C(n - q, m - 1) / C(n, m - 1) for the chance of a clean cluster, which counts the party
    itself among its possible cluster mates.

    Raises:
        UsageError: not 0 <= q < n, 1 <= m <= n and R >= 1.
    """
    _check(parties, byzantine, size)
    if byzantine == parties or reclusterings < 1:
        raise UsageError(f"{byzantine} of {parties} Byzantine, {reclusterings} reclusterings")
    mates = odds.tail(parties - 1, byzantine, size - 1, 1)
    return float(mates**reclusterings)


def worst_case_tolerance(parties: int, size: int, withstood: int) -> int:
    """Byzantine parties that a rule stands wherever they are: each may spoil a cluster of its own.

    It is the number k of clusters that the rule withstands
    (:func:`securefl.methods.robust.tolerance.withstood`); or everybody, for a rule that withstands all c =
    floor(n / m) clusters. Lemma 2 writes it q0 / m with the tolerance q0 of the rule on n inputs, which is
    right where k = floor(q0 / m), as for the median, and too much for Bulyan (docs/results/what-we-found.md).

    Raises:
        UsageError: not 1 <= m <= n, or ``withstood`` negative.
    """
    _check_withstood(parties, size, withstood)
    return parties if withstood >= parties // size else withstood
