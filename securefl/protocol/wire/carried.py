"""Frames in carriers, put together again by a reader that is not their receiver: an observer."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Final

from securefl.protocol import messages
from securefl.protocol.wire import envelope

_OPEN: Final = 16
"""Incomplete frames of one sender; one more, and the oldest is given up."""


class CarriedFrames:
    """Pieces of frames that have passed, for each sender of at most 16 frames, each of at most 1 MiB."""

    def __init__(self) -> None:
        self._pieces: dict[str, OrderedDict[tuple[bytes, int, int], dict[int, bytes]]] = defaultdict(
            OrderedDict
        )

    def put(self, payload: envelope.Payload) -> bytes | None:
        """Keep the piece in a carrier, verified by the caller; return the frame that it completes.

        A piece beyond the bounds of frames is dropped: receivers refuse it.
        """
        header = payload.header
        if not _fits(header, len(payload.body)):
            return None
        open_ = self._pieces[header.sender]
        # All carriers of one frame state the same number of parts.
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
