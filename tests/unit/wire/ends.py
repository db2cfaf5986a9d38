"""Identities, and senders and receivers that share a roster, for tests of the wire."""

from __future__ import annotations

from typing import Any

import msgspec

from securefl.base.crypto.identity import Identity
from securefl.base.crypto.roster import Roster
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.wire.codec import encode
from securefl.protocol.wire.envelope import MIN_FRAME, MIN_PIECE, Header, seal_frame
from securefl.protocol.wire.inbox import Inbox
from securefl.protocol.wire.outbox import Outbox

RUN = RunId("run")
A = PartyId("a")
B = PartyId("b")
PLACE = Place(1, 2, 3, 4)
MAX_MESSAGE = 100_000

_ROOT = InsecureSeededEntropy(7)
IDENTITIES = {name: Identity.generate(name, _ROOT.child(name)) for name in (SERVER, A, B)}
ROSTER = Roster(IDENTITIES[SERVER].public, {name: IDENTITIES[name].public for name in (A, B)})

HEADER = Header(
    run=RUN,
    round=1,
    reclustering=2,
    cluster=3,
    attempt=4,
    kind="MaskedInput",
    sender=A,
    recipient=SERVER,
    session=b"session1",
    seq=0,
    part=0,
    parts=1,
)
BODY = encode(MaskedInput(vector=b"masked"))
PIECE = bytes(MIN_PIECE)


def outbox(name: PartyId = A, process: int = 0, frame_limit: int = MIN_FRAME) -> Outbox:
    """The sending end of one start of a process."""
    return Outbox(RUN, IDENTITIES[name], _ROOT.child("outbox", name, process), frame_limit)


def inbox(
    me: PartyId = SERVER,
    max_message: int = MAX_MESSAGE,
    max_age: float = 120.0,
    budget: int | None = None,
) -> Inbox:
    """The receiving end of a process. Any number of unfinished messages fits, unless a budget is given."""
    return Inbox(RUN, me, ROSTER, max_message, max_age, 1 << 40 if budget is None else budget)


def sealed(body: bytes = BODY, by: PartyId = A, **changes: Any) -> bytes:
    """A frame that ``by`` has signed with a header of its choice."""
    return seal_frame(msgspec.structs.replace(HEADER, **changes), body, IDENTITIES[by])
