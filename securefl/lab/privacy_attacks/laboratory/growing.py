"""Sums of some members of an opened cluster: what smaller clusters would have shown of the same updates.

Nobody opened them. They are added up from ground truth, i.e. from what each member encoded, rounding and
noise included. The last one is all of the cluster, and has to be the sum that was opened, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from securefl.base.ids import PartyId
from securefl.lab.privacy_attacks.laboratory.case import Case
from securefl.lab.privacy_attacks.laboratory.clusters import ClusterMean, cluster_means
from securefl.methods.attacks import behaviours_of
from securefl.methods.clustering import work_of
from securefl.methods.encoding import to_ring
from securefl.protocol.round import ClusterSum


def sizes_up_to(members: int) -> tuple[int, ...]:
    """1, about the square root, and all: each of them costs a search. ``members`` >= 1."""
    return tuple(sorted({1, round(math.sqrt(members)), members}))


def followed(case: Case, opened: ClusterSum) -> tuple[PartyId, ...]:
    """The members of a sum that show no behaviour, ascending: what others encoded says little of samples."""
    behind = behaviours_of(case.recorded.scenario, case.seed)
    return tuple(party for party in sorted(opened.survivors) if party not in behind)


def growing(case: Case, opened: ClusterSum) -> tuple[ClusterMean, ...]:
    """The means of 1, ..., all members of a sum of the first round, each with those of the one before.

    Members without a behaviour come first. Sizes are those of :func:`sizes_up_to`.

    Args:
        case: the run.
        opened: one of ``case.first.sums``.

    Returns:
        Nothing where what was kept does not add up to ``opened``: an update is missing, or noise was taken
        out of the sum (dropout-exact).
    """
    honest = followed(case, opened)
    order = (*honest, *sorted(set(opened.survivors) - set(honest)))
    work = work_of(case.recorded.scenario, opened.reclustering)
    kept = [case.uploads(party, case.first.round, work) for party in order]
    known = [upload for upload in kept if upload is not None]
    bits = case.recorded.limits.ring_bits
    if len(known) < len(order) or not np.array_equal(to_ring(np.sum(known, axis=0), bits), opened.ring):
        return ()
    sums = [
        replace(opened, survivors=order[:size], ring=to_ring(np.sum(known[:size], axis=0), bits))
        for size in sizes_up_to(len(order))
    ]
    return cluster_means(case.recorded.scenario, sums, case.weights(case.first))
