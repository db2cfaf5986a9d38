"""Inbox: verify frames, drop duplicates, detect equivocation, reassemble messages.

Order of checks: size, form, known sender, signature, run and recipient, message size, session and sequence
number. Only then is memory spent on the sender: at most ``MAX_OPEN`` times ``max_message`` bytes of pieces,
for ``max_age`` seconds. Digests of its frames are kept since the start of its previous round, at most
``REMEMBERED`` (or two messages in smallest pieces, if more). Carriers are reassembled like messages; the
carried frame then passes all checks.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from securefl.base import crypto
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol import kernel, messages
from securefl.protocol.wire import carried, envelope
from securefl.protocol.wire.codec import decode

REMEMBERED = 16_384
"""Most remembered frames per session; older messages are stale."""
RECENT = 64
"""Frames remembered of any round: more than a broker has in flight and may resend."""
MAX_SESSIONS = 64
"""Most remembered earlier sessions of one process."""
_WHO_ASKS = f"{SERVER} asks"
"""Key of servers that do not lead, and end no session."""
MAX_OPEN = 16
"""Most incomplete messages of one sender. The oldest carried frame is dropped first, since its sender resends
it in other carriers.
"""
_CARRIERS = messages.MAX_FRAME // envelope.MIN_PIECE + 1


@dataclass(frozen=True, slots=True)
class Delivery:
    """Whole, verified, new message."""

    sender: PartyId
    place: kernel.Place
    message: messages.AnyMessage
    signed: bytes = field(repr=False)
    """Empty if there were several frames."""
    session: bytes = carried.NOBODY
    """:data:`NOBODY` for a relayed frame."""

    def event(self, now: float) -> kernel.Received[messages.AnyMessage]:
        """Return the machine event of this message."""
        return kernel.Received(now, self.sender, self.place, self.message, self.signed, self.session)


@dataclass(frozen=True, slots=True)
class FramePart:
    """Verified, new part of an incomplete message."""

    sender: PartyId


@dataclass(slots=True)
class _Assembly:
    header: envelope.Header
    born: float
    pieces: dict[int, memoryview] = field(default_factory=dict)
    size: int = 0


@dataclass(slots=True)
class _Session:
    seen: OrderedDict[tuple[int, int], bytes] = field(default_factory=OrderedDict)
    floor: int = -1
    """Highest sequence number of a forgotten frame."""
    round: int = -1
    """Latest round named by a frame; a wrong one harms only its sender."""
    past: int = 0
    """First entries of ``seen`` that came before any frame of that round."""
    done: int = 0
    """Those before any frame of the previous round; they are not sent again."""
    open: dict[int, _Assembly] = field(default_factory=dict)
    again: set[tuple[int, int]] = field(default_factory=set)
    """Frames of rejected or dropped messages: their copies count as new."""

    def is_duplicate(self, header: envelope.Header, digest: bytes) -> bool:
        known = self.seen.get((header.seq, header.part))
        if known == digest:
            return (header.seq, header.part) not in self.again
        if known is not None:
            raise PeerError(
                header.sender, f"signed two different messages under one sequence number, {header.seq}"
            )
        if header.seq <= self.floor:
            raise PeerError(header.sender, f"has an old sequence number, {header.seq}")
        return False

    def least_needed(self) -> int:
        carried = (seq for seq, one in self.open.items() if one.header.kind == envelope.CARRIER)
        return next(carried, next(iter(self.open)))

    def take_again(self, seq: int, parts: Iterable[int]) -> None:
        self.again |= self.seen.keys() & {(seq, part) for part in parts}

    def remember(self, header: envelope.Header, digest: bytes, limit: int) -> None:
        # Order by arrival, not by named round: messages about earlier rounds, or none, have present numbers.
        if header.round > self.round:
            self.round, self.done, self.past = header.round, self.past, len(self.seen)
        self.again.discard((header.seq, header.part))
        self.seen[header.seq, header.part] = digest
        while len(self.seen) > (RECENT if self.done else limit):
            (seq, part), _ = self.seen.popitem(last=False)
            self.again.discard((seq, part))
            self.floor = max(self.floor, seq)
            self.done, self.past = max(0, self.done - 1), max(0, self.past - 1)


@dataclass(slots=True)
class _Sender:
    current: bytes = b""
    session: _Session = field(default_factory=_Session)
    retired: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    held: int = 0

    def complete(self, seq: int) -> int:
        freed = self.session.open.pop(seq).size
        self.held -= freed
        return freed

    def give_up(self, seq: int) -> int:
        """Drop an incomplete message, whose frames may come again; return the bytes freed."""
        self.session.take_again(seq, self.session.open[seq].pieces)
        return self.complete(seq)


class Inbox:
    """Inbox of one process, ``me``, in one run.

    A frame of a new session ends the sender's earlier one, whose late frames are rejected. A broker can
    replay an earlier session if it withheld *all* of it, or recorded it more than ``MAX_SESSIONS`` restarts
    ago. That cuts off the present session, as dropping its frames would. Of a server, frames of an earlier
    epoch are rejected, and of two sessions in one epoch the first is followed.

    ``max_message`` and ``budget`` are bytes: of one message, and of all incomplete ones (by default one
    message per roster entry). Beyond the budget, the sender that holds most loses its oldest message first,
    and cannot crowd out another. ``leader`` is the server's session of the highest epoch known before.
    """

    def __init__(
        self,
        run: RunId,
        me: PartyId,
        roster: crypto.Roster,
        max_message: int,
        max_age: float = 120.0,
        budget: int | None = None,
        leader: bytes = carried.NOBODY,
    ) -> None:
        self._leader = leader
        self._run = run
        self._me = me
        self._roster = roster
        self._max_message = max_message
        self._max_parts = max_message // envelope.MIN_PIECE + 1
        self._max_seen = max(REMEMBERED, 2 * self._max_parts)
        self._max_age = max_age
        self._budget = max_message * (len(roster.parties) + 2) if budget is None else budget
        self._held = 0
        self._senders: dict[str, _Sender] = {}
        self._last: tuple[_Session, envelope.Header] | None = None
        self._oldest = math.inf
        """No incomplete message is older."""

    @property
    def expires(self) -> float | None:
        """Earliest time for :meth:`sweep`; None without incomplete messages."""
        return None if self._oldest == math.inf else self._oldest + self._max_age

    def sweep(self, now: float) -> None:
        """Drop messages incomplete for more than ``max_age``."""
        if now - self._oldest <= self._max_age:
            return
        for sender in self._senders.values():
            for seq in [s for s, one in sender.session.open.items() if now - one.born > self._max_age]:
                self._held -= sender.give_up(seq)
        born = (one.born for sender in self._senders.values() for one in sender.session.open.values())
        self._oldest = min(born, default=math.inf)

    def accept(self, frame: bytes, delivered_by: str, now: float) -> Delivery | None:
        """Process one frame as :meth:`take`; return None for a part."""
        taken = self.take(frame, delivered_by, now)
        return None if isinstance(taken, FramePart) else taken

    def take(self, frame: bytes, delivered_by: str, now: float) -> Delivery | FramePart | None:
        """Process one frame; return the completed message, the new part, or None for a duplicate.

        Raises:
            PeerError: the frame is rejected. Only an authentic, new frame of an invalid message is
                remembered.
        """
        payload = envelope.peek(frame, delivered_by)
        header = payload.header
        if header.sender not in self._roster:
            raise PeerError(delivered_by, f"was sent by {header.sender!r}, which is not on the roster")
        member = self._roster.member(header.sender)
        envelope.open_frame(frame, payload, member, self._run, self._me)
        self._check_size(header, len(payload.body))
        sender = self._session_of(header)
        session = sender.session
        digest = hashlib.blake2b(frame[: envelope.SIGNATURE], digest_size=16).digest()
        if session.is_duplicate(header, digest):
            return None
        body = bytes(payload.body) if header.parts == 1 else self._assemble(sender, payload, now)
        session.remember(header, digest, self._max_seen)
        if body is None:
            return FramePart(member.name)
        if header.kind == envelope.CARRIER:
            return self._take_carried(header, body, now)
        self._last = session, header
        message = _message_of(header, body)
        signed = frame if header.parts == 1 else b""
        # Use the roster's name: names are kept as long as the run lasts, copies would be one per message.
        return Delivery(member.name, header.place, message, signed, header.session)

    def refuse_last(self) -> None:
        """Accept a resend of the last returned message, which its recipient rejected as too early."""
        if self._last is not None:
            session, header = self._last
            session.take_again(header.seq, range(header.parts))

    def _take_carried(
        self, carrier: envelope.Header, frame: bytes, now: float
    ) -> Delivery | FramePart | None:
        """Process a frame reassembled from carriers; reject a carrier or another sender's frame."""
        header = envelope.peek(frame, carrier.sender).header
        if header.kind == envelope.CARRIER or header.sender != carrier.sender:
            raise PeerError(carrier.sender, f"repeats a {header.kind} of {header.sender!r}, which it may not")
        return self.take(frame, carrier.sender, now)

    def _largest(self, header: envelope.Header) -> tuple[int, int]:
        return (
            (messages.MAX_FRAME, _CARRIERS)
            if header.kind == envelope.CARRIER
            else (self._max_message, self._max_parts)
        )

    def _check_size(self, header: envelope.Header, size: int) -> None:
        largest, parts = self._largest(header)
        if size > largest or header.parts > parts:
            raise PeerError(header.sender, f"{header.kind} exceeds {largest} bytes")
        if header.part < header.parts - 1 and size < envelope.MIN_PIECE:
            reason = f"a part of {header.kind} has {size} bytes, all but the last need {envelope.MIN_PIECE}"
            raise PeerError(header.sender, reason)

    def _session_of(self, header: envelope.Header) -> _Sender:
        whose: str = header.sender
        if header.sender == SERVER and carried.epoch_of(header.session) == carried.ASKING:
            whose = _WHO_ASKS
        elif header.sender == SERVER:
            self._check_leader(header.session)
        sender = self._senders.setdefault(whose, _Sender())
        if header.session == sender.current:
            return sender
        if header.session in sender.retired:
            raise PeerError("broker", f"repeats a message of an earlier session of {header.sender}")
        if sender.current:
            sender.retired[sender.current] = None
        if len(sender.retired) > MAX_SESSIONS:
            sender.retired.popitem(last=False)
        self._held -= sender.held
        sender.current, sender.session, sender.held = header.session, _Session(), 0
        return sender

    def _check_leader(self, session: bytes) -> None:
        """Follow a server of a later epoch, and only one server per epoch."""
        if session == self._leader:
            return
        epoch, known = carried.epoch_of(session), carried.epoch_of(self._leader)
        if epoch < known:
            raise PeerError("broker", f"comes from an earlier server process (epoch {epoch}, now {known})")
        if epoch == known and self._leader:
            raise PeerError(SERVER, f"two server processes run at once (epoch {epoch}): this is the second")
        self._leader = session

    def _assemble(self, sender: _Sender, payload: envelope.Payload, now: float) -> bytes | None:
        header, session = payload.header, sender.session
        self.sweep(now)
        first = msgspec.structs.replace(header, part=0)
        assembly = session.open.get(header.seq) or _Assembly(first, now)
        if assembly.header != first:
            raise PeerError(
                header.sender,
                f"signed parts of two different messages under one sequence number, {header.seq}",
            )
        largest, _ = self._largest(header)
        if assembly.size + len(payload.body) > largest:
            raise PeerError(header.sender, f"{header.kind} exceeds {largest} bytes")
        if header.seq not in session.open and len(session.open) >= MAX_OPEN:
            self._held -= sender.give_up(session.least_needed())
        session.open[header.seq] = assembly
        self._oldest = min(self._oldest, assembly.born)
        size = len(payload.body)
        assembly.pieces[header.part] = payload.body
        assembly.size += size
        sender.held += size
        self._held += size
        if len(assembly.pieces) == header.parts:
            self._held -= sender.complete(header.seq)
            return b"".join(assembly.pieces[part] for part in range(header.parts))
        while self._held > self._budget:
            most = max(self._senders.values(), key=lambda one: one.held)
            self._held -= most.give_up(next(iter(most.session.open)))
        return None


def open_relayed(
    frame: bytes, roster: crypto.Roster, run: RunId, recipient: PartyId, relayed_by: str
) -> Delivery:
    """Verify a relayed frame, signed by its sender for ``recipient`` (usually the server).

    Raises:
        PeerError: of the relay if the frame is not authentic, of the sender if it is malformed.
    """
    payload = envelope.peek(frame, relayed_by)
    header = payload.header
    try:
        member = roster.member(header.sender)
        envelope.open_frame(frame, payload, member, run, recipient)
    except PeerError as error:
        raise PeerError(relayed_by, f"passed on a message that is not authentic ({error.reason})") from error
    if header.parts != 1:
        raise PeerError(relayed_by, "passed on a part of a message")
    return Delivery(member.name, header.place, _message_of(header, bytes(payload.body)), frame)


def _message_of(header: envelope.Header, body: bytes) -> messages.AnyMessage:
    message = decode(body, header.sender)
    if type(message).__name__ != header.kind:
        raise PeerError(header.sender, f"envelope says {header.kind}, message is {type(message).__name__}")
    return message
