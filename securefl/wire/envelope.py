"""The signed envelope: every frame says where in the run it belongs and is signed as it travels.

A frame is ``signature (64) || payload``; the payload is the MessagePack array of header and body. The
signature is Ed25519 over a domain label and the SHA-256 of the exact payload bytes. Signing each frame, not
each message, means that nothing unauthenticated ever enters reassembly. SHA-256 goes first because Ed25519
alone would read a long frame twice through SHA-512 (ADR 0003).
"""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from securefl.crypto.identity import Identity, PublicIdentity
from securefl.errors import PeerError
from securefl.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.kernel.events import Place
from securefl.messages.base import MAX_FRAME

DOMAIN = b"securefl/1/frame\x00"
SIGNATURE = 64
HEADER_ROOM = 256
"""Bytes of a frame that are kept for signature and header; the rest is body."""
_ARRAY_OF_TWO = b"\x92"

_Index = Annotated[int, Meta(ge=-1, lt=2**31)]
_PartyName = Annotated[str, Meta(max_length=32)]


class Header(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a frame belongs. All of it is signed."""

    run: _PartyName
    round: _Index
    reclustering: _Index
    cluster: _Index
    attempt: Annotated[int, Meta(ge=0, le=64)]
    kind: _PartyName
    sender: _PartyName
    recipient: _PartyName
    session: Annotated[bytes, Meta(min_length=8, max_length=8)]
    """Fresh at each start of the sender's process, so that a restart does not look like equivocation."""
    seq: Annotated[int, Meta(ge=0, le=2**62)]
    part: Annotated[int, Meta(ge=0, lt=65_536)]
    parts: Annotated[int, Meta(ge=1, le=65_536)]

    @property
    def place(self) -> Place:
        """The place of the message within the run."""
        return Place(self.round, self.reclustering, self.cluster, self.attempt)


class Payload(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is signed."""

    header: Header
    body: Annotated[bytes, Meta(max_length=MAX_FRAME)]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Payload)


def seal_frame(header: Header, body: bytes | memoryview, identity: Identity) -> bytes:
    """Return the signed frame (bytes on the wire)."""
    prefix = _prefix(header, len(body))
    digest = hashlib.sha256(prefix)
    digest.update(body)
    return b"".join((identity.sign(DOMAIN + digest.digest()), prefix, body))


def _prefix(header: Header, size: int) -> bytes:
    """What stands before a body of ``size`` bytes in the one encoding of a payload.

    Composed, so that a body is neither copied to be signed nor encoded again to be compared.
    """
    return _ARRAY_OF_TWO + _encoder.encode(header) + _bin_header(size)


def _bin_header(size: int) -> bytes:
    # MessagePack's bin 8, bin 16 and bin 32: the shortest that holds the length.
    if size < 2**8:
        return b"\xc4" + size.to_bytes(1, "big")
    if size < 2**16:
        return b"\xc5" + size.to_bytes(2, "big")
    return b"\xc6" + size.to_bytes(4, "big")


def peek(frame: bytes, culprit: str) -> Payload:
    """Decode a frame without trusting it.

    Raises:
        PeerError: too long, too short, malformed or not canonical. ``culprit`` is whoever delivered it.
    """
    if not SIGNATURE < len(frame) <= MAX_FRAME:
        raise PeerError(culprit, f"frame of {len(frame)} bytes (allowed: {SIGNATURE + 1} to {MAX_FRAME})")
    try:
        payload = _decoder.decode(memoryview(frame)[SIGNATURE:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(culprit, f"malformed frame: {error}") from error
    # The decoder took the whole frame. So one that begins with this prefix, and is as long as prefix and body,
    # holds this body right behind it: it is the one encoding, and the body need not be compared.
    prefix = _prefix(payload.header, len(payload.body))
    if not frame.startswith(prefix, SIGNATURE) or len(frame) != SIGNATURE + len(prefix) + len(payload.body):
        raise PeerError(culprit, "frame is not in its canonical encoding")
    if payload.header.part >= payload.header.parts:
        raise PeerError(culprit, f"part {payload.header.part} of {payload.header.parts}")
    return payload


def open_frame(
    frame: bytes, payload: Payload, sender: PublicIdentity, run: RunId, recipient: PartyId
) -> None:
    """Check that a peeked frame belongs to this run, is addressed to ``recipient`` and signed by ``sender``.

    Raises:
        PeerError: with the claimed sender as culprit when the signature holds, else "broker".
    """
    digest = hashlib.sha256(memoryview(frame)[SIGNATURE:]).digest()
    if not sender.verify(DOMAIN + digest, frame[:SIGNATURE]):
        raise PeerError("broker", f"frame in the name of {sender.name!r} is not signed by it")
    header = payload.header
    if header.run != run:
        raise PeerError(header.sender, f"frame of run {header.run!r}, this is {run!r}")
    if header.recipient != recipient and (header.recipient != EVERYONE or recipient == SERVER):
        raise PeerError(header.sender, f"frame for {header.recipient!r} arrived at {recipient!r}")
