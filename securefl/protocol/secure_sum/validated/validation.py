"""Parameters of a validated sum, and the rules that members and server apply alike (ADR 0024)."""

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
    """Parameters of validation, the same in all attempts of a run; what bounds updates goes by weight."""

    projections: int
    """n: of each update in each check."""
    k_anonymity: int
    """k: honest members that a sum must be about at least."""
    colluders: int
    """f: members of a sum that may collude."""
    dealer: PartyId = DEALER

    def shortage(self, accepted: int, min_survivors: int) -> str:
        """The reason why so few accepted updates must not be opened; empty when they may."""
        if accepted < min_survivors:
            return f"{accepted} of the updates passed the check, min_survivors is {min_survivors}"
        if accepted - self.colluders < self.k_anonymity:
            return (
                f"{accepted} of the updates passed the check; without those of {self.colluders} colluders"
                f" fewer than k_anonymity = {self.k_anonymity} remain"
            )
        return ""


def is_too_long(opened: Ring, norm: int) -> bool:
    """Whether an opened sum is longer than ``norm``, the C of all in it together: some share is wrong."""
    values = [int(v) for v in encoding.from_ring(opened)]
    return sums.exact_sum(v * v for v in values) > norm**2


def accepted_by(verdicts: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """Members accepted by *all* others: a member's own word about itself does not count.

    Args:
        verdicts: by member, whom it accepts.
    """
    members = verdicts.keys()
    return frozenset(i for i in members if all(i in verdicts[j] for j in members if j != i))


def validated_lists(lists_digest: bytes, accepted: frozenset[int]) -> bytes:
    """The lists that a validated sum's receipt states: holders of the shares, and members of the sum."""
    return crypto.digest("validated lists", lists_digest, *sorted(accepted))


def receipts_digest(frames: Mapping[int, bytes]) -> bytes:
    """Digest of everybody's ``Held``, as signed, by member number."""
    fields: list[bytes | int] = []
    for index in sorted(frames):
        fields += [index, frames[index]]
    return crypto.digest("held shares", *fields)
