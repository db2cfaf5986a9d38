"""Sizes of frames: messages of the real types, encoded and framed as they travel, without long vectors."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from securefl.base.ids import SERVER
from securefl.protocol import messages, wire

SumKind = Literal["masking", "crypten", "validated"]
"""``secure_sum.kind``, and CrypTen's with ``secure_sum.validate``."""

_ROOM = messages.MAX_FRAME - wire.HEADER_ROOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifiers:
    """Who repeats a round, where rounds are verified."""

    asked: int
    """Members of a cluster that are asked to repeat its opening."""
    needed: int
    """Members of a cluster whose word its sum takes: f + 1."""
    committee: int
    """Parties that repeat the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """All that a round's messages depend on."""

    run: str
    """Id of the run."""
    party: str
    """A party's name; all are as long."""
    parties: int
    """N, all of whom take part."""
    members: int
    """Of each of the party's clusters."""
    reclusterings: int
    clusters: int
    """C, for the length of their numbers."""
    parameters: int
    """d."""
    word: int
    """Bytes of a ring element: 4 or 8."""
    min_survivors: int
    k: int
    quorum: int | None
    """Signatures of a certificate; None without."""
    kind: SumKind = "masking"
    """Validated sums are in the ring of 64 bits."""
    projections: int = 64
    """Of each update that is validated."""
    components: int = 0
    """Secrets of removable noise that each member shares."""
    verifiers: Verifiers | None = None
    """None where nobody repeats a round."""
    samples: int = 1000
    """That a party declares."""
    round: int = 1
    sequence: int = 1000
    """A sequence number as long as most of a run's."""

    @property
    def sums(self) -> int:
        """Of a round."""
        return self.reclusterings * self.clusters

    @property
    def attests(self) -> int:
        """Relayed with an announcement: for each sum as many as it takes, and all that the committee gave."""
        if self.verifiers is None:
            return 0
        return self.sums * min(self.verifiers.needed, self.members) + self.verifiers.committee


class Frames:
    """Sizes of frames of one place: the round as a whole, or one of the party's instances."""

    def __init__(self, cohort: Cohort, reclustering: int | None = None) -> None:
        self._cohort = cohort
        # The number of a cluster hardly matters, as above; that of the middle one is as long as most.
        self._place = (-1, -1) if reclustering is None else (reclustering, cohort.clusters // 2)

    def up(self, message: messages.AnyMessage, bulk: int = 0) -> tuple[str, int]:
        """Kind and bytes of a message of the party; ``bulk`` bytes stand in its last, empty field."""
        return type(message).__name__, self._size(self._cohort.party, SERVER, message, bulk)

    def down(self, to: str, message: messages.AnyMessage, bulk: int = 0) -> tuple[str, int]:
        """Kind and bytes of a message of the server."""
        return type(message).__name__, self._size(SERVER, to, message, bulk)

    def signed_size(self, message: messages.AnyMessage, sender: str = "") -> bytes:
        """As many bytes as the frame of a short message to the server has: to be relayed in another one.

        ``sender``: a party, when left out.
        """
        return bytes(self._size(sender or self._cohort.party, SERVER, message, 0))

    def _size(self, sender: str, to: str, message: messages.AnyMessage, bulk: int) -> int:
        body = body_of(message, bulk)
        parts = max(1, -(-body // _ROOM))
        reclustering, cluster = self._place
        heads = (
            wire.Header(
                run=self._cohort.run,
                round=self._cohort.round,
                reclustering=reclustering,
                cluster=cluster,
                attempt=0,
                kind=type(message).__name__,
                sender=sender,
                recipient=to,
                session=bytes(8),
                seq=self._cohort.sequence,
                part=part,
                parts=parts,
            )
            for part in range(parts)
        )
        return body + sum(wire.SIGNATURE + 1 + len(msgspec.msgpack.encode(head)) for head in heads)


def body_of(message: messages.Message, bulk: int = 0) -> int:
    """Bytes of an encoded message, with ``bulk`` bytes in its last, empty field."""
    # An empty byte string has a head of 2 bytes; one of 2^8, 2^16 bytes or more has 3, 5.
    return len(wire.encode(message)) + bulk + (0 if bulk < 2**8 else 1 if bulk < 2**16 else 3)
