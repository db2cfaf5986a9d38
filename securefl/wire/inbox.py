"""From frames to messages: verify, drop duplicates, name equivocation, reassemble within limits.

Order of checks: size, form, known sender, signature, run and recipient, session and sequence number, and only
then memory is spent on the sender. All limits are per sender, so that one party cannot crowd out another.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from securefl.crypto.roster import Roster
from securefl.errors import PeerError
from securefl.ids import PartyId, RunId
from securefl.kernel.events import Place
from securefl.messages.union import AnyMessage
from securefl.wire.codec import decode
from securefl.wire.envelope import Header, Payload, open_frame, peek

WINDOW = 4_096
"""Sequence numbers that are remembered per session; older ones are refused as stale."""
MAX_SESSIONS = 64
"""Restarts of one process that are told apart within a run."""
MAX_OPEN = 64
"""Messages of one sender that may be incomplete at the same time."""


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
    born: float
    parts: dict[int, bytes]
    size: int = 0


@dataclass(slots=True)
class _Session:
    seen: dict[tuple[int, int], bytes] = field(default_factory=dict)
    highest: int = -1
    open: dict[int, _Assembly] = field(default_factory=dict)


@dataclass(slots=True)
class _Sender:
    current: bytes = b""
    session: _Session = field(default_factory=_Session)
    retired: set[bytes] = field(default_factory=set)


class Inbox:
    """Everything that arrives at one process.

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
        self._max_age = max_age
        self._senders: dict[str, _Sender] = {}

    def accept(self, frame: bytes, delivered_by: str, now: float) -> Delivery | None:
        """Take one frame; return the message that it completes, None for a duplicate or a part.

        Raises:
            PeerError: the frame is refused and nothing has changed.
        """
        payload = peek(frame, delivered_by)
        header = payload.header
        open_frame(frame, payload, self._roster.member(header.sender), self._run, self._me)
        if header.parts > 1 and header.parts * len(payload.body) > 2 * self._max_message:
            raise PeerError(header.sender, f"{header.kind} in {header.parts} parts exceeds the size limit")
        session = self._session_of(header)
        if self._is_duplicate(session, header, frame):
            return None
        body = payload.body if header.parts == 1 else self._assemble(session, payload, now)
        if body is None:
            return None
        message = decode(body, header.sender)
        if type(message).__name__ != header.kind:
            raise PeerError(
                header.sender, f"envelope says {header.kind}, message is {type(message).__name__}"
            )
        return Delivery(PartyId(header.sender), header.place, message, frame if header.parts == 1 else b"")

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

    @staticmethod
    def _is_duplicate(session: _Session, header: Header, frame: bytes) -> bool:
        digest = hashlib.blake2b(frame[:64], digest_size=16).digest()
        key = (header.seq, header.part)
        known = session.seen.get(key)
        if known == digest:
            return True
        if known is not None:
            raise PeerError(header.sender, f"equivocates: two messages with sequence number {header.seq}")
        if header.seq <= session.highest - WINDOW:
            raise PeerError(header.sender, f"stale sequence number {header.seq}")
        session.seen[key] = digest
        if header.seq > session.highest:
            session.highest = header.seq
            if len(session.seen) > 4 * WINDOW:
                floor = session.highest - WINDOW
                session.seen = {k: v for k, v in session.seen.items() if k[0] > floor}
        return False

    def _assemble(self, session: _Session, payload: Payload, now: float) -> bytes | None:
        header = payload.header
        for seq in [s for s, a in session.open.items() if now - a.born > self._max_age]:
            del session.open[seq]
        assembly = session.open.get(header.seq)
        if assembly is None:
            if len(session.open) >= MAX_OPEN:
                raise PeerError(header.sender, f"more than {MAX_OPEN} incomplete messages")
            assembly = session.open[header.seq] = _Assembly(now, {})
        assembly.parts[header.part] = payload.body
        assembly.size += len(payload.body)
        if assembly.size > self._max_message:
            del session.open[header.seq]
            raise PeerError(header.sender, f"{header.kind} exceeds {self._max_message} bytes")
        if len(assembly.parts) < header.parts:
            return None
        del session.open[header.seq]
        return b"".join(assembly.parts[part] for part in range(header.parts))


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
    message = decode(payload.body, header.sender)
    if type(message).__name__ != header.kind:
        raise PeerError(header.sender, f"envelope says {header.kind}, message is {type(message).__name__}")
    return Delivery(PartyId(header.sender), header.place, message, frame)
