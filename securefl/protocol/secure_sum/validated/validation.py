"""Parameters of a validated sum, and rules shared by members and server (ADR 0024)."""

from collections.abc import Mapping
from dataclasses import dataclass

from securefl.base import crypto, sums
from securefl.base.arrays import Ring
from securefl.base.ids import DEALER, PartyId
from securefl.methods import encoding

SHARE_NUMBER = 1 << 30
"""``PeerBox.number`` of a share of an update."""
CHECK_NUMBERS = 1 << 16
"""Messages of the check of member i are numbered from i times this."""


@dataclass(frozen=True, slots=True)
class Validation:
    """Parameters of a run; bounds of updates depend on weights instead."""

    projections: int
    """n: projections of each update in each check."""
    k_anonymity: int
    """k: least honest members in a sum."""
    colluders: int
    """f: members of a sum that may collude."""
    dealer: PartyId = DEALER

    def shortage(self, accepted: int, min_survivors: int) -> str:
        """Return the reason why too few updates are accepted, or ""."""
        if accepted < min_survivors:
            return f"{accepted} of the updates passed the check, min_survivors is {min_survivors}"
        if accepted - self.colluders < self.k_anonymity:
            return (
                f"{accepted} of the updates passed the check; without those of {self.colluders} colluders"
                f" fewer than k_anonymity = {self.k_anonymity} remain"
            )
        return ""


def is_too_long(opened: Ring, norm: int) -> bool:
    """Return True if an opened sum is longer than ``norm``, the C of its members: a share is wrong."""
    values = [int(v) for v in encoding.from_ring(opened)]
    return sums.exact_sum(v * v for v in values) > norm**2


def accepted_by(verdicts: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """Return the members accepted by *all* others."""
    members = verdicts.keys()
    return frozenset(i for i in members if all(i in verdicts[j] for j in members if j != i))


def validated_lists(lists_digest: bytes, accepted: frozenset[int]) -> bytes:
    """Return the receipt's digest of lists: holders of shares, and members of the sum."""
    return crypto.digest("validated lists", lists_digest, *sorted(accepted))


def receipts_digest(frames: Mapping[int, bytes]) -> bytes:
    """Return the digest of all signed ``Held`` frames, by member number."""
    fields: list[bytes | int] = []
    for index in sorted(frames):
        fields += [index, frames[index]]
    return crypto.digest("held shares", *fields)
