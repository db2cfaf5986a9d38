"""What members of hidden groups put into counts and slots, and which slots may be opened (docs/adr/0026)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from securefl.arrays import Ring
from securefl.config.sizes import COUNTS
from securefl.encoding.ring import from_ring, to_ring
from securefl.messages.rounds import Limits
from securefl.rounds.plan import Plan
from securefl.rounds.reports import ClusterKey, SlotsCounted
from securefl.rounds.stacking import ClusterSum
from securefl.rounds.upload import Upload

FIRST_SLOT = COUNTS + 1


def slot_uploads(plan: Plan, upload: Upload, group: int) -> tuple[Upload, ...]:
    """A party's uploads to its k + 1 instances: a one-hot count, and its update to one slot of k.

    Args:
        plan: of the run.
        upload: the encoded update of the model that it learns.
        group: the model's number.
    """
    bits = plan.limits.ring_bits
    one_hot = (np.arange(plan.models) == group).astype(np.int64)
    nothing = to_ring(np.zeros(plan.length, dtype=np.int64), bits)
    slots = (upload if slot == group else Upload(nothing, 0) for slot in range(plan.models))
    return (Upload(to_ring(one_hot, bits), 0), *slots)


def counts_of(ring: Ring) -> tuple[int, ...]:
    """The counts in an opened sum, as integers of either sign."""
    return tuple(int(count) for count in from_ring(ring))


def open_slots(counts: Sequence[int], survivors: int, least: int) -> tuple[int, ...]:
    """The groups of a cluster whose sums may be opened.

    Args:
        counts: by group, as opened.
        survivors: members that are in the counts.
        least: fewest members of a sum that may be opened: f + k_anonymity.

    Returns:
        None of them where the counts cannot be those of ``survivors`` members in one group each.
    """
    if min(counts) < 0 or sum(counts) != survivors:
        return ()
    return tuple(group for group, count in enumerate(counts) if count >= max(least, 1))


def least_of(plan: Plan, limits: Iterable[Limits]) -> int:
    """Fewest members of a slot that may be opened, so that everybody's published limit is kept."""
    wanted = max((said.k_anonymity for said in limits), default=1)
    return plan.scenario.secure_sum.colluders_per_cluster + wanted


def counted(round_: int, sums: Sequence[ClusterSum], least: int) -> tuple[SlotsCounted, ...]:
    """What opened counts say, cluster by cluster."""
    return tuple(
        SlotsCounted(round_, one.cluster, found, open_slots(found, len(one.survivors), least))
        for one in sums
        if one.reclustering == COUNTS
        for found in (counts_of(one.ring),)
    )


def opened_slots(reports: Iterable[SlotsCounted]) -> frozenset[ClusterKey]:
    """The instances of slots that may be opened."""
    return frozenset((FIRST_SLOT + slot, one.cluster) for one in reports for slot in one.slots)


def totals_of(reports: Iterable[SlotsCounted]) -> Mapping[ClusterKey, int]:
    """Members in the sum of each slot that may be opened."""
    return {(FIRST_SLOT + slot, one.cluster): one.counts[slot] for one in reports for slot in one.slots}
