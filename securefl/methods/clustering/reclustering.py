"""Benefits of reclustering, as SHARE (Velicheti, Xia, Koyejo 2021) counts them: n parties, q Byzantine.

Clusters have m members each and are drawn R times a round, uniformly and independently.
"""

from securefl.base.errors import UsageError
from securefl.methods.clustering import odds
from securefl.methods.clustering.sizes import cluster_sizes


def r_star(units: int, clusters: int) -> int | None:
    """Return ceil((N - 1) / (C - 1)): draws whose sums typically determine each of the same updates.

    Each draw typically adds C - 1 independent equations. ``units`` counts parties, or atoms, whose sums are
    then determined. None for one cluster, which exposes no party except by dropouts.
    """
    return None if clusters < 2 else -(-(units - 1) // (clusters - 1))


def p_withstands(parties: int, byzantine: int, size: int, withstood: int, reclusterings: int) -> float:
    """Return P(q Byzantine parties spoil more than ``withstood`` clusters in none of R assignments).

    Assignments are independent. The mean over reclusterings is as wrong as its worst one, so this *falls*
    with R, except at 0 and 1.

    Raises:
        UsageError: not 0 <= q <= n, 1 <= m <= n and R >= 1, or ``withstood`` negative.
    """
    _check(parties, byzantine, size)
    _check_withstood(parties, size, withstood, reclusterings)
    once = odds.touched_at_most(cluster_sizes(parties, size), byzantine, withstood)
    return float(once**reclusterings)


def exact_variance_factor(parties: int, byzantine: int, size: int, picked: int, reclusterings: int) -> float:
    """Return (n - q - bm) / (R (n - q - 1)): variance factor of a mean without replacement, over R draws.

    Draws are independent, and b clusters are picked blindly; part of the error of a rule that inspects them
    is the same in every reclustering. SHARE's Theorems 3 and 7 have (n - q - bm) / (R (n - q) - 1), the same
    for R = 1 only.

    Raises:
        UsageError: not 1 <= b m <= n - q, R >= 1, and n - q >= 2.
    """
    _check_picks(parties - byzantine, size * picked, reclusterings)
    benign = parties - byzantine
    return (benign - size * picked) / (reclusterings * (benign - 1))


def _check(parties: int, byzantine: int, size: int) -> None:
    if not (0 <= byzantine <= parties and 1 <= size <= parties):
        raise UsageError(
            f"byzantine must be from 0 to {parties} and size from 1 to {parties}, the number of"
            f" parties; found {byzantine} and {size}"
        )


def _check_withstood(parties: int, size: int, withstood: int, reclusterings: int = 1) -> None:
    _check(parties, 0, size)
    if withstood < 0 or reclusterings < 1:
        raise UsageError(
            f"withstood must be at least 0 and reclusterings at least 1, found {withstood} and"
            f" {reclusterings}"
        )


def _check_picks(benign: int, picked: int, reclusterings: int) -> None:
    if benign < 2 or not 1 <= picked <= benign or reclusterings < 1:
        raise UsageError(
            "benign must be at least 2, picked from 1 to benign and reclusterings at least 1; found"
            f" {benign}, {picked}, {reclusterings}"
        )
