"""The outbox: from a message to signed frames, with their sequence numbers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from securefl.base.crypto import Identity
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol.kernel import Place
from securefl.protocol.messages import MAX_FRAME, AnyMessage
from securefl.protocol.wire.codec import encode
from securefl.protocol.wire.envelope import HEADER_ROOM, MAX_PARTS, MIN_FRAME, Header, seal_frame
from securefl.protocol.wire.sessions import ASKING, SESSION, session_of_server


class Outbox:
    """The frames of one process, numbered from 0 within a random session.

    A server's first session leads nothing; :meth:`lead` begins the next one. ``entropy`` gives the session:
    each start of a process takes another one, where all else follows from a seed, too.

    ``frame_limit`` is the largest frame in bytes that the broker takes (``MIN_FRAME`` to ``MAX_FRAME``).
    """

    def __init__(
        self, run: RunId, identity: Identity, entropy: Entropy, frame_limit: int = MAX_FRAME
    ) -> None:
        if not MIN_FRAME <= frame_limit <= MAX_FRAME:
            raise UsageError(f"frame limit {frame_limit} outside [{MIN_FRAME}, {MAX_FRAME}]")
        self._run = run
        self._identity = identity
        fresh = entropy.child("session")
        leads = identity.name == SERVER
        self._session = session_of_server(ASKING, fresh) if leads else fresh.draw(SESSION)
        self._room = frame_limit - HEADER_ROOM
        self._next = 0

    def lead(self, session: bytes) -> None:
        """Number later frames within this session of a server that leads."""
        self._session, self._next = session, 0

    def frames(self, to: PartyId, place: Place, message: AnyMessage) -> Iterator[bytes]:
        """Yield the signed frames of ``message`` in order (one, unless it is larger than the frame limit).

        Raises:
            UsageError: the message is too long for frames of this size.
        """
        body = memoryview(encode(message))
        parts = max(1, -(-len(body) // self._room))
        if parts > MAX_PARTS:
            raise UsageError(f"{type(message).__name__} of {len(body)} bytes needs {parts} frames")
        seq, self._next = self._next, self._next + 1
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
            seq=seq,
            part=0,
            parts=parts,
        )
        for part in range(parts):
            piece = body[part * self._room : (part + 1) * self._room]
            yield seal_frame(msgspec.structs.replace(header, part=part), piece, self._identity)
