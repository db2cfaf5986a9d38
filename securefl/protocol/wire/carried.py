"""Reassembly of carried frames by an observer, and sessions of processes (ADR 0054).

A session is 8 bytes: random for a party; for a server its epoch (4 bytes, big-endian) and 4 random bytes,
which distinguish two servers of one epoch.
"""

from collections import OrderedDict, defaultdict
from typing import Final

from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.protocol import messages
from securefl.protocol.wire import envelope

_OPEN: Final = 16
"""Most incomplete frames of one sender."""


class CarriedFrames:
    """Pieces of observed frames: per sender at most 16 frames of at most 1 MiB."""

    def __init__(self) -> None:
        self._pieces: dict[str, OrderedDict[tuple[bytes, int, int], dict[int, bytes]]] = defaultdict(
            OrderedDict
        )

    def put(self, payload: envelope.Payload) -> bytes | None:
        """Store the piece of a verified carrier; return the frame that it completes.

        A piece beyond the bounds of frames is dropped, as by receivers.
        """
        header = payload.header
        if not _fits(header, len(payload.body)):
            return None
        open_ = self._pieces[header.sender]
        # All carriers of one frame have the same number of parts.
        key = header.session, header.seq, header.parts
        pieces = open_.setdefault(key, {})
        pieces[header.part] = bytes(payload.body)
        if len(pieces) == header.parts:
            del open_[key]
            return b"".join(pieces[part] for part in range(header.parts))
        if len(open_) > _OPEN:
            open_.popitem(last=False)
        return None


def _fits(header: envelope.Header, size: int) -> bool:
    whole = header.part == header.parts - 1 or size >= envelope.MIN_PIECE
    return header.kind == envelope.CARRIER and whole and size * (header.parts - 1) <= messages.MAX_FRAME


SESSION: Final = 8
NOBODY: Final = b""
"""Session of a server if none is followed."""
ASKING: Final = 0
"""Epoch of a server that looks for others and does not lead."""
MAX_EPOCH: Final = 2**32 - 1


def session_of_server(epoch: int, entropy: Entropy) -> bytes:
    """Return a fresh session of a server in an epoch from 0 to ``MAX_EPOCH`` (else a UsageError)."""
    if not ASKING <= epoch <= MAX_EPOCH:
        raise UsageError(f"epoch must be from {ASKING} to {MAX_EPOCH}, found {epoch}")
    return epoch.to_bytes(4, "big") + entropy.draw(4)


def epoch_of(session: bytes) -> int:
    """Return the epoch of a server's session; ``ASKING`` for :data:`NOBODY`."""
    return int.from_bytes(session[:4], "big")
