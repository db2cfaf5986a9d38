"""From frames to messages: verify, drop duplicates, name equivocation, reassemble within limits.

Order of checks: size, form, known sender, signature, run and recipient, size of the message, session and
sequence number, and only then memory is spent on the sender. All limits are per sender, so that one party
cannot crowd out another: a sender holds at most ``MAX_OPEN`` times ``max_message`` bytes of pieces, plus what
is remembered of ``REMEMBERED`` frames (or of two messages in pieces of the smallest size, if that is more).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

import msgspec

from securefl.crypto.roster import Roster
from securefl.errors import PeerError
from securefl.ids import PartyId, RunId
from securefl.kernel.events import Place
from securefl.messages.union import AnyMessage
from securefl.wire.codec import decode
from securefl.wire.envelope import MIN_PIECE, SIGNATURE, Header, Payload, open_frame, peek

REMEMBERED = 16_384
"""Frames that are remembered per session; messages as old as forgotten ones are refused as stale."""
MAX_SESSIONS = 64
"""Restarts of one process that are told apart within a run."""
MAX_OPEN = 16
"""Messages of one sender that may be incomplete at the same time; one more, and the oldest is given up."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A whole, verified, new message."""

    sender: PartyId
    place: Place
    message: AnyMessage
    signed: bytes = field(repr=False)
    """The exact frame when there was only one, else empty."""


@dataclass(slots=True)
class _Assembly:
    header: Header
    born: float
    pieces: dict[int, memoryview] = field(default_factory=dict)
    size: int = 0


@dataclass(slots=True)
class _Session:
    seen: OrderedDict[tuple[int, int], bytes] = field(default_factory=OrderedDict)
    floor: int = -1
    """The highest sequence number of a forgotten frame."""
    open: dict[int, _Assembly] = field(default_factory=dict)

    def is_duplicate(self, header: Header, digest: bytes) -> bool:
        known = self.seen.get((header.seq, header.part))
        if known == digest:
            return True
        if known is not None:
            raise PeerError(header.sender, f"equivocates: two messages with sequence number {header.seq}")
        if header.seq <= self.floor:
            raise PeerError(header.sender, f"stale sequence number {header.seq}")
        return False

    def remember(self, header: Header, digest: bytes, limit: int) -> None:
        self.seen[header.seq, header.part] = digest
        if len(self.seen) > limit:
            (seq, _), _ = self.seen.popitem(last=False)
            self.floor = max(self.floor, seq)


@dataclass(slots=True)
class _Sender:
    current: bytes = b""
    session: _Session = field(default_factory=_Session)
    retired: set[bytes] = field(default_factory=set)


class Inbox:
    """Everything that arrives at one process.

    A frame of a new session ends the sender's earlier one: what that sent and has not arrived is refused from
    then on. (A broker that held back *all* of an earlier session can still play it later, which cuts off the
    present one; it could as well have dropped its frames.)

    Args:
        run: frames of other runs are refused.
        me: the recipient that frames must be addressed to (or to everybody).
        roster: the public keys of all who may speak.
        max_message: largest message in bytes, from the model's size and the number of parties.
        max_age: seconds after which an incomplete message is thrown away.
    """

    def __init__(
        self, run: RunId, me: PartyId, roster: Roster, max_message: int, max_age: float = 120.0
    ) -> None:
        self._run = run
        self._me = me
        self._roster = roster
        self._max_message = max_message
        self._max_parts = max_message // MIN_PIECE + 1
        self._max_seen = max(REMEMBERED, 2 * self._max_parts)
        self._max_age = max_age
        self._senders: dict[str, _Sender] = {}

    def accept(self, frame: bytes, delivered_by: str, now: float) -> Delivery | None:
        """Take one frame; return the message that it completes, None for a duplicate or a part.

        Raises:
            PeerError: the frame is refused. A frame that is authentic and new but completes something that
                is not a message is remembered; every other refusal leaves memory as it was.
        """
        payload = peek(frame, delivered_by)
        header = payload.header
        if header.sender not in self._roster:
            raise PeerError(delivered_by, f"frame in the name of {header.sender!r}, who is not on the roster")
        open_frame(frame, payload, self._roster.member(header.sender), self._run, self._me)
        self._check_size(header, len(payload.body))
        session = self._session_of(header)
        digest = hashlib.blake2b(frame[:SIGNATURE], digest_size=16).digest()
        if session.is_duplicate(header, digest):
            return None
        body = bytes(payload.body) if header.parts == 1 else self._assemble(session, payload, now)
        session.remember(header, digest, self._max_seen)
        if body is None:
            return None
        message = _message_of(header, body)
        return Delivery(PartyId(header.sender), header.place, message, frame if header.parts == 1 else b"")

    def _check_size(self, header: Header, size: int) -> None:
        if size > self._max_message or header.parts > self._max_parts:
            raise PeerError(header.sender, f"{header.kind} exceeds {self._max_message} bytes")
        if header.part < header.parts - 1 and size < MIN_PIECE:
            raise PeerError(header.sender, f"{header.kind} in pieces of {size} bytes")

    def _session_of(self, header: Header) -> _Session:
        sender = self._senders.setdefault(header.sender, _Sender())
        if header.session == sender.current:
            return sender.session
        if header.session in sender.retired:
            raise PeerError("broker", f"replayed frame of an earlier session of {header.sender}")
        if len(sender.retired) >= MAX_SESSIONS:
            raise PeerError(header.sender, f"restarted more than {MAX_SESSIONS} times")
        if sender.current:
            sender.retired.add(sender.current)
        sender.current = header.session
        sender.session = _Session()
        return sender.session

    def _assemble(self, session: _Session, payload: Payload, now: float) -> bytes | None:
        header = payload.header
        for seq in [s for s, a in session.open.items() if now - a.born > self._max_age]:
            del session.open[seq]
        first = msgspec.structs.replace(header, part=0)
        assembly = session.open.get(header.seq) or _Assembly(first, now)
        if assembly.header != first:
            raise PeerError(header.sender, f"equivocates: parts of two messages with number {header.seq}")
        if assembly.size + len(payload.body) > self._max_message:
            raise PeerError(header.sender, f"{header.kind} exceeds {self._max_message} bytes")
        if header.seq not in session.open and len(session.open) >= MAX_OPEN:
            del session.open[next(iter(session.open))]
        session.open[header.seq] = assembly
        assembly.pieces[header.part] = payload.body
        assembly.size += len(payload.body)
        if len(assembly.pieces) < header.parts:
            return None
        del session.open[header.seq]
        return b"".join(assembly.pieces[part] for part in range(header.parts))


def open_relayed(frame: bytes, roster: Roster, run: RunId, recipient: PartyId, relayed_by: str) -> Delivery:
    """Verify a frame that somebody relayed: signed by its sender for ``recipient`` (usually the server).

    Raises:
        PeerError: the relay is at fault when the frame is not authentic, the sender when it is malformed.
    """
    payload = peek(frame, relayed_by)
    header = payload.header
    try:
        open_frame(frame, payload, roster.member(header.sender), run, recipient)
    except PeerError as error:
        raise PeerError(relayed_by, f"relayed a frame that is not authentic ({error.reason})") from error
    if header.parts != 1:
        raise PeerError(relayed_by, "relayed a part of a message")
    return Delivery(PartyId(header.sender), header.place, _message_of(header, bytes(payload.body)), frame)


def _message_of(header: Header, body: bytes) -> AnyMessage:
    message = decode(body, header.sender)
    if type(message).__name__ != header.kind:
        raise PeerError(header.sender, f"envelope says {header.kind}, message is {type(message).__name__}")
    return message
