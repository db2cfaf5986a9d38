"""MQTT packets as they pass a relay, and the frames of a run in them: who says what, in which round.

Only as much of MQTT 3.1.1 and 5 as it takes to find the payload of a PUBLISH (section 3.3 of both).
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import NamedTuple

from securefl.base.errors import PeerError
from securefl.protocol.wire.envelope import peek

CONNECT, PUBLISH = 1, 3
MQTT_5 = 5


class Seen(NamedTuple):
    """One frame on its way from ``by`` to the broker."""

    at: float
    """On the harness's monotonic clock."""
    by: str
    """Whose link it came over."""
    kind: str
    round: int
    reclustering: int
    cluster: int
    attempt: int
    recipient: str
    session: bytes
    """Of the sender's process: fresh at each start."""
    seq: int
    part: int
    digest: bytes
    """Of the whole frame: one that is sent again has the same."""
    said: bytes
    """Digest of what it says: the same for two servers of which one asks again what the other has asked."""


async def read_packet(reader: asyncio.StreamReader) -> bytes:
    """One whole packet; empty at the end of the stream.

    Raises:
        asyncio.IncompleteReadError: the stream ends within a packet.
    """
    first = await reader.read(1)
    if not first:
        return b""
    head, length, shift = bytearray(first), 0, 0
    while True:
        byte = (await reader.readexactly(1))[0]
        head.append(byte)
        length |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return bytes(head) + await reader.readexactly(length)


def kind_of(packet: bytes) -> int:
    """The packet's control type."""
    return packet[0] >> 4


def level_of(connect: bytes) -> int:
    """The protocol's level in a CONNECT packet: 4 is MQTT 3.1.1, 5 is 5."""
    at = _body(connect)
    name = int.from_bytes(connect[at : at + 2], "big")
    return connect[at + 2 + name]


def payload_of(publish: bytes, level: int) -> tuple[str, bytes]:
    """Topic and payload of a PUBLISH packet."""
    at = _body(publish)
    topic = at + 2 + int.from_bytes(publish[at : at + 2], "big")
    name = publish[at + 2 : topic].decode()
    at = topic + (2 if publish[0] & 0x06 else 0)
    if level >= MQTT_5:
        length, shift = 0, 0
        while True:
            byte = publish[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        at += length
    return name, publish[at:]


def frame_in(packet: bytes, level: int, by: str, now: float) -> Seen | None:
    """The frame of a run in a packet; None for all else (last wills, probes, words between servers)."""
    if kind_of(packet) != PUBLISH:
        return None
    _, payload = payload_of(packet, level)
    try:
        signed = peek(payload, by)
    except PeerError:
        return None
    header = signed.header
    return Seen(
        now,
        by,
        header.kind,
        header.round,
        header.reclustering,
        header.cluster,
        header.attempt,
        header.recipient,
        header.session,
        header.seq,
        header.part,
        hashlib.sha256(payload).digest(),
        hashlib.sha256(signed.body).digest(),
    )


def _body(packet: bytes) -> int:
    """Where the variable header begins."""
    at = 1
    while packet[at] & 0x80:
        at += 1
    return at + 1
