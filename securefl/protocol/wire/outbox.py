"""Outbox: from messages to signed frames with sequence numbers."""

import itertools
from collections.abc import Iterator

import msgspec

from securefl.base import crypto
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol import kernel, messages
from securefl.protocol.wire import carried
from securefl.protocol.wire.codec import encode
from securefl.protocol.wire.envelope import (
    CARRIER,
    HEADER_ROOM,
    MAX_PARTS,
    MIN_FRAME,
    Header,
    peek,
    seal_frame,
)


class Outbox:
    """Signed frames of one process, numbered from 0 within a session.

    The session comes from ``entropy``, which must differ at each start, even if all else follows from a seed.
    ``frame_limit``, in bytes, is the broker's (``MIN_FRAME`` to ``MAX_FRAME``).
    """

    def __init__(
        self, run: RunId, identity: crypto.Identity, entropy: Entropy, frame_limit: int = messages.MAX_FRAME
    ) -> None:
        if not MIN_FRAME <= frame_limit <= messages.MAX_FRAME:
            raise UsageError(
                f"frame_limit must be from {MIN_FRAME} to {messages.MAX_FRAME} bytes, found {frame_limit}"
            )
        self._run = run
        self._identity = identity
        fresh = entropy.child("session")
        leads = identity.name == SERVER
        self._session = (
            carried.session_of_server(carried.ASKING, fresh) if leads else fresh.draw(carried.SESSION)
        )
        self._room = frame_limit - HEADER_ROOM
        # Atomic: messages are signed in a worker thread, carriers on the event loop.
        self._numbers = itertools.count()

    def lead(self, session: bytes) -> None:
        """Count later frames from 0 within this session; a server's first one does not lead."""
        self._session, self._numbers = session, itertools.count()

    def frames(self, to: PartyId, place: kernel.Place, message: messages.AnyMessage) -> Iterator[bytes]:
        """Return the signed frames of ``message``: one, unless it exceeds the frame limit.

        Raises:
            UsageError: the message is too long for frames of this size.
        """
        body = memoryview(encode(message))
        parts = max(1, -(-len(body) // self._room))
        if parts > MAX_PARTS:
            raise UsageError(
                f"cannot send {type(message).__name__} of {len(body)} bytes: it needs {parts} frames, at"
                f" most {MAX_PARTS}; raise frame_limit"
            )
        header = Header(
            run=self._run,
            round=place.round,
            reclustering=place.reclustering,
            cluster=place.cluster,
            attempt=place.attempt,
            kind=type(message).__name__,
            sender=self._identity.name,
            recipient=to,
            session=self._session,
            seq=next(self._numbers),
            part=0,
            parts=parts,
        )
        return self._pieces(header, body, self._room)

    def carriers(self, frame: bytes, limit: int) -> Iterator[bytes]:
        """Return the signed frames, of at most ``limit`` bytes, that carry a frame of this outbox unchanged.

        So receivers recognise copies of the carried frame, and its signature can be relayed.

        Raises:
            UsageError: the limit is below ``MIN_FRAME``.
        """
        if limit < MIN_FRAME:
            raise UsageError(
                f"limit of a carrier must be at least {MIN_FRAME} bytes, the smallest frame; found {limit}"
            )
        room = limit - HEADER_ROOM
        header = msgspec.structs.replace(
            peek(frame, self._identity.name).header,
            kind=CARRIER,
            session=self._session,
            seq=next(self._numbers),
            part=0,
            parts=max(1, -(-len(frame) // room)),
        )
        return self._pieces(header, memoryview(frame), room)

    def _pieces(self, header: Header, body: memoryview, room: int) -> Iterator[bytes]:
        for part in range(header.parts):
            piece = body[part * room : (part + 1) * room]
            yield seal_frame(msgspec.structs.replace(header, part=part), piece, self._identity)
