"""Sizes of frames: real messages, encoded and framed, without long vectors."""

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
    """Parties that repeat a verified round."""

    asked: int
    """Members of a cluster that are asked to repeat its opening."""
    needed: int
    """Members of a cluster whose attests its sum needs: f + 1."""
    committee: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """Inputs of message sizes."""

    run: str
    party: str
    """Name of a party; all have this length."""
    parties: int
    """N; all take part."""
    members: int
    """Members of each of the party's clusters."""
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
    """None without certificates."""
    kind: SumKind = "masking"
    """Kind of the sums; validated ones have a ring of 64 bits."""
    projections: int = 64
    """Projections of each validated update."""
    components: int = 0
    """Secrets of removable noise that each member shares."""
    verifiers: Verifiers | None = None
    samples: int = 1000
    round: int = 1
    sequence: int = 1000
    """Sequence number of typical length."""

    @property
    def sums(self) -> int:
        """Sums of a round."""
        return self.reclusterings * self.clusters

    @property
    def attests(self) -> int:
        """Attests relayed with an announcement: those that each sum needs, and all of the committee."""
        if self.verifiers is None:
            return 0
        return self.sums * min(self.verifiers.needed, self.members) + self.verifiers.committee


class Frames:
    """Sizes of frames of one scope: the round, or one of the party's instances."""

    def __init__(self, cohort: Cohort, reclustering: int | None = None) -> None:
        self._cohort = cohort
        # The middle cluster's number has typical length.
        self._place = (-1, -1) if reclustering is None else (reclustering, cohort.clusters // 2)

    def up(self, message: messages.AnyMessage, bulk: int = 0) -> tuple[str, int]:
        """Return kind and bytes of a message of the party, with ``bulk`` bytes in its last, empty field."""
        return type(message).__name__, self._size(self._cohort.party, SERVER, message, bulk)

    def down(self, to: str, message: messages.AnyMessage, bulk: int = 0) -> tuple[str, int]:
        """Return kind and bytes of a message of the server."""
        return type(message).__name__, self._size(SERVER, to, message, bulk)

    def signed_size(self, message: messages.AnyMessage, sender: str = "") -> bytes:
        """Return placeholder bytes for a short message's frame to the server, to relay in another message.

        The default sender is a party.
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
    """Return the bytes of an encoded message, with ``bulk`` bytes in its last, empty field."""
    # An empty byte string has a head of 2 bytes; from 2^8 and 2^16 bytes on it has 3 and 5.
    return len(wire.encode(message)) + bulk + (0 if bulk < 2**8 else 1 if bulk < 2**16 else 3)
