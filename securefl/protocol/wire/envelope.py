"""Signed envelope: each frame names its place in the run and is signed.

A frame is ``signature (64) || length of the header (1) || header || body``, with a MessagePack array as
header. The body, (a piece of) an encoded message, is neither copied nor decoded before the signature is
verified: Ed25519 over a domain label and the SHA-256 of the rest (ADR 0003). Only authenticated pieces enter
reassembly.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from securefl.base import crypto
from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, NAME, SERVER, PartyId, RunId
from securefl.protocol import kernel, messages
from securefl.protocol.wire.codec import quote_error

DOMAIN = b"securefl/1/frame\x00"
SIGNATURE = 64
HEADER_ROOM = 256
"""Bytes of a frame reserved for signature and header."""
MIN_FRAME = 4 * 1024
"""Smallest frame limit, in bytes, of a sender."""
MIN_PIECE = MIN_FRAME - HEADER_ROOM
"""Smallest piece but the last, so that the size of a message limits its parts."""
MAX_PARTS = 65_536
CARRIER = "Carrier"
"""Kind of a frame whose body is a piece of another frame, too large for a broker."""

_Index = Annotated[int, Meta(ge=-1, lt=2**31)]
_Word = Annotated[str, Meta(pattern=rf"^(?:{NAME.pattern})\Z")]
_Recipient = Annotated[str, Meta(pattern=rf"^(?:\*|{NAME.pattern})\Z")]


class Header(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Signed header of a frame."""

    run: _Word
    round: _Index
    reclustering: _Index
    cluster: _Index
    attempt: Annotated[int, Meta(ge=0, le=64)]
    kind: Annotated[str, Meta(max_length=32)]
    sender: _Word
    recipient: _Recipient
    session: Annotated[bytes, Meta(min_length=8, max_length=8)]
    """Fresh at each start of the process, so that a restart does not look like equivocation."""
    seq: Annotated[int, Meta(ge=0, le=2**62)]
    part: Annotated[int, Meta(ge=0, lt=MAX_PARTS)]
    parts: Annotated[int, Meta(ge=1, le=MAX_PARTS)]

    @property
    def place(self) -> kernel.Place:
        """Place of the message within the run."""
        return kernel.Place(self.round, self.reclustering, self.cluster, self.attempt)


@dataclass(frozen=True, slots=True)
class Payload:
    """Signed part of a frame. ``body`` is a view into the frame."""

    header: Header
    body: memoryview = field(repr=False)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Header)


def seal_frame(header: Header, body: bytes | memoryview, identity: crypto.Identity) -> bytes:
    """Return the signed frame."""
    encoded = _encoder.encode(header)
    head = len(encoded).to_bytes(1, "big") + encoded
    hashed = hashlib.sha256(head)
    hashed.update(body)
    return b"".join((identity.sign(DOMAIN + hashed.digest()), head, body))


def peek(frame: bytes, culprit: str) -> Payload:
    """Parse a frame without verifying its signature.

    Raises:
        PeerError: ``culprit``, which delivered it: too long, too short, malformed or not canonical.
    """
    if not SIGNATURE < len(frame) <= messages.MAX_FRAME:
        raise PeerError(culprit, f"has {len(frame)} bytes (allowed: {SIGNATURE + 1} to {messages.MAX_FRAME})")
    start = SIGNATURE + 1
    end = start + frame[SIGNATURE]
    encoded = frame[start:end]
    try:
        header = _decoder.decode(encoded)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(culprit, f"is malformed: {quote_error(error)}") from error
    if _encoder.encode(header) != encoded:
        raise PeerError(culprit, "its header is not in canonical encoding")
    if header.kind != CARRIER and header.kind not in messages.KINDS:
        raise PeerError(culprit, f"has the unknown kind {header.kind!r}")
    if header.part >= header.parts:
        raise PeerError(culprit, f"is part {header.part} of {header.parts}, which is impossible")
    return Payload(header, memoryview(frame)[end:])


def open_frame(
    frame: bytes, payload: Payload, sender: crypto.PublicIdentity, run: RunId, recipient: PartyId
) -> None:
    """Verify that a peeked frame belongs to this run, is addressed to ``recipient`` and signed by ``sender``.

    Raises:
        PeerError: of the claimed sender if the signature is valid, else of "broker".
    """
    digest = hashlib.sha256(memoryview(frame)[SIGNATURE:]).digest()
    if not sender.verify(DOMAIN + digest, frame[:SIGNATURE]):
        raise PeerError("broker", f"a message of {sender.name!r} has a wrong signature")
    header = payload.header
    if header.sender != sender.name:
        raise PeerError("broker", f"a message of {header.sender!r} is signed by {sender.name!r}")
    if header.run != run:
        raise PeerError(header.sender, f"belongs to run {header.run!r}, not {run!r}")
    if header.recipient != recipient and (header.recipient != EVERYONE or recipient == SERVER):
        raise PeerError(header.sender, f"is for {header.recipient!r}, not for {recipient!r}")
