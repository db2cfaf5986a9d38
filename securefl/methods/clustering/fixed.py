"""Clusters that stay for the whole run: a baseline for experiments (SHARE, Section 6 and Figure 9).

No nonce has a part in them. The seed hashes the run's id and configuration, which whoever starts the run may
try until the clusters suit: nothing here is verifiable except that the clusters do not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from securefl.base import crypto
from securefl.base.ids import PartyId, RunId
from securefl.methods.clustering import assignment


def fixed_seed(run: RunId, config: bytes) -> bytes:
    """Return the seed (32 bytes) of a run's fixed clusters."""
    return crypto.digest("fixed clusters", run, config)


def fixed_assignment(
    seed: bytes, roster: Iterable[PartyId], present: Collection[PartyId], size: int, fewest: int
) -> assignment.Assignment:
    """Return the clusters of one round, as far as their members are there.

    Everybody of the roster is assigned and then the absent are missing, so that nobody's mates change. A
    cluster with fewer than ``fewest`` members left is no part of the round; later ones then move up in the
    numbering.

    Args:
        seed: from :func:`fixed_seed`.
        roster: all parties of the run.
        present: who is there in this round.
        size: smallest cluster size m, of whole clusters.
        fewest: members below which a sum may not be opened.
    """
    everybody = sorted(roster)
    (whole,) = assignment.draw_assignment(seed, everybody, len(everybody), size, 1).clusters
    there = (tuple(party for party in members if party in present) for members in whole)
    row = tuple(members for members in there if len(members) >= fewest)
    return assignment.Assignment(tuple(sorted(party for members in row for party in members)), (row,))
