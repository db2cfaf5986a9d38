"""Counts and slots of hidden groups, and the slots that may be opened (docs/adr/0026).

A member takes a random one of a slot's many seats, and checks that it is among the opened ones. Counts add up
to the members present, so an attacker that raises one must lower others, whose taken seats it does not know.
Either a seat becomes negative and the cluster closes, or a member finds its seat empty and releases nothing.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from securefl.base.arrays import Ring
from securefl.base.entropy import Entropy
from securefl.base.sums import exact_sum
from securefl.methods import clustering, encoding
from securefl.protocol import messages
from securefl.protocol.round.party.upload import EncodedUpdate
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey, SlotsCounted

FIRST_SLOT = clustering.COUNTS + 1


def draw_seat(entropy: Entropy, group: int) -> int:
    """Return a member's random seat of slot ``group``."""
    return group * messages.SEATS + int.from_bytes(entropy.child("seat").draw(8), "big") % messages.SEATS


def slot_uploads(plan: RunPlan, upload: EncodedUpdate, seat: int) -> tuple[EncodedUpdate, ...]:
    """Return a party's uploads to its k + 1 instances: a one-hot count, and its update in one of k slots."""
    bits = plan.limits.ring_bits
    one_hot = (np.arange(plan.sum_length(clustering.COUNTS)) == seat).astype(np.int64)
    nothing = encoding.to_ring(np.zeros(plan.length, dtype=np.int64), bits)
    slots = (
        upload if slot == seat // messages.SEATS else EncodedUpdate(nothing, 0) for slot in range(plan.models)
    )
    return (EncodedUpdate(encoding.to_ring(one_hot, bits), 0), *slots)


def counts_in(ring: Ring) -> tuple[int, ...]:
    """Return the sum of each slot's seats in an opened sum, of either sign."""
    slots = ring.reshape(-1, messages.SEATS).sum(axis=1, dtype=ring.dtype)
    return tuple(int(count) for count in encoding.from_ring(slots))


def seats_in(ring: Ring, survivors: int) -> tuple[int, ...]:
    """Return the taken seats of an opened sum, ascending, with multiplicity; empty if impossible."""
    taken = encoding.from_ring(ring)
    if taken.min() < 0 or taken.max() > survivors or taken.sum() != survivors:
        return ()
    return tuple(int(seat) for seat in np.repeat(np.arange(len(taken)), taken))


def counts_at(seats: Sequence[int], groups: int) -> tuple[int, ...]:
    """Return the number of the seats in each slot."""
    return tuple(exact_sum(seat // messages.SEATS == group for seat in seats) for group in range(groups))


def open_slots(counts: Sequence[int], survivors: int, least: int) -> tuple[int, ...]:
    """Return the groups with at least ``least`` members (f + k_anonymity), whose sums may be opened.

    Empty if the counts are impossible.
    """
    if min(counts) < 0 or exact_sum(counts) != survivors:
        return ()
    return tuple(group for group, count in enumerate(counts) if count >= max(least, 1))


def least_in_slot(plan: RunPlan, limits: Iterable[messages.Limits]) -> int:
    """Return the fewest members with which all published limits allow a slot to open."""
    wanted = max((own_limits.k_anonymity for own_limits in limits), default=1)
    return plan.scenario.secure_sum.colluders_per_cluster + wanted


def count_reports(round_: int, sums: Sequence[ClusterSum], least: int) -> tuple[SlotsCounted, ...]:
    """Return the report of opened counts, by cluster."""
    return tuple(_count_report(round_, one, least) for one in sums if one.reclustering == clustering.COUNTS)


def _count_report(round_: int, one: ClusterSum, least: int) -> SlotsCounted:
    counts, seats = counts_in(one.ring), seats_in(one.ring, len(one.survivors))
    slots = open_slots(counts, len(one.survivors), least) if seats else ()
    return SlotsCounted(round_, one.cluster, counts, slots, seats)


def opened_slots(reports: Iterable[SlotsCounted]) -> frozenset[ClusterKey]:
    """Return the instances of slots that may be opened."""
    return frozenset((FIRST_SLOT + slot, one.cluster) for one in reports for slot in one.slots)


def slot_totals(reports: Iterable[SlotsCounted]) -> Mapping[ClusterKey, int]:
    """Return the members in each sum of a slot that may be opened."""
    return {key: total for one in reports for key, total in one.totals.items()}
