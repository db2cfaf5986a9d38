"""The frames that an observer in lab mode kept, as the messages that each process took from them."""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import Any

import numpy as np

from securefl.base import crypto
from securefl.base.arrays import digest_of
from securefl.base.errors import ConfigError, PeerError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.methods import encoding
from securefl.protocol import messages, wire
from securefl.runtime import process, transcript

_LARGEST = 1 << 31

MessageKey = tuple[str, str, tuple[int, ...], str]
"""Sender, kind, place and digest: what a transcript says of a message."""


def frames_of(folder: Path) -> tuple[bytes, ...]:
    """The frames in a lab folder, in the order in which the broker passed them on; none without an observer.

    Raises:
        ConfigError: the file is cut off.
    """
    path = folder / process.LAB_FRAMES
    if not path.exists():
        return ()
    raw = path.read_bytes()
    found: list[bytes] = []
    position = 0
    while position < len(raw):
        if position + 4 > len(raw):
            raise ConfigError(str(path), f"is cut off after {len(found)} frames")
        (length,) = struct.unpack_from("<I", raw, position)
        position += 4 + length
        if position > len(raw):
            raise ConfigError(str(path), f"is cut off after {len(found)} frames")
        found.append(raw[position - length : position])
    return tuple(found)


class Wiretap:
    """Messages by who took them and by what transcripts say of them.

    Args:
        frames: all that passed the broker.
        run: frames of other runs are left out.
        roster: whose signatures count.
        ring_bits: of masked inputs.
    """

    def __init__(self, frames: tuple[bytes, ...], run: RunId, roster: crypto.Roster, ring_bits: int) -> None:
        self._run = run
        self._roster = roster
        self._bits = ring_bits
        self._frames: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        for number, frame in enumerate(frames):
            try:
                self._frames[wire.peek(frame, "broker").header.recipient].append((number, frame))
            except PeerError:
                # Last wills, probes and garbage have no envelope.
                continue

    def taken_by(self, vantage: PartyId) -> dict[MessageKey, list[wire.Delivery]]:
        """Messages that this process can have taken, oldest first where messages are alike."""
        inbox = wire.Inbox(self._run, vantage, self._roster, max_message=_LARGEST)
        found: dict[MessageKey, list[wire.Delivery]] = defaultdict(list)
        for frame in self._for(vantage):
            try:
                delivery = inbox.accept(frame, "broker", 0.0)
            except PeerError:
                continue
            if delivery is not None:
                found[self.key(delivery.sender, delivery.place, delivery.message)].append(delivery)
        return found

    def software_of(self, party: PartyId) -> messages.Software | None:
        """Return the versions that a party reported when it first joined; None if it reported none."""
        inbox = wire.Inbox(self._run, SERVER, self._roster, max_message=_LARGEST)
        for _, frame in self._frames[SERVER]:
            header = wire.peek(frame, "broker").header
            if header.kind != messages.Software.__name__ or header.sender != party:
                continue
            try:
                delivery = inbox.accept(frame, "broker", 0.0)
            except PeerError:
                continue
            if delivery is not None and isinstance(delivery.message, messages.Software):
                return delivery.message
        return None

    def key(self, sender: str, place: tuple[int, ...], message: messages.AnyMessage) -> MessageKey:
        """The key of this message in a transcript."""
        if isinstance(message, messages.MaskedInput):
            words = np.frombuffer(message.vector, dtype=encoding.ring_dtype(self._bits))
            return sender, type(message).__name__, tuple(place), digest_of(words).hex()
        return sender, type(message).__name__, tuple(place), hashlib.sha256(wire.encode(message)).hexdigest()

    def _for(self, vantage: PartyId) -> Iterator[bytes]:
        """In the order in which they passed: an inbox forgets rounds that are over."""
        for _, frame in merge(self._frames[EVERYONE], self._frames[vantage]):
            yield frame


def key_of(entry: transcript.Entry, who: str) -> MessageKey:
    """The key of a ``received`` or ``sent`` entry; ``who`` is its sender (or, sent, its recipient)."""
    fields: Any = entry.fields
    digest = fields["sha256"] if "sha256" in fields else fields["vector"]["digest"]
    return who, str(fields["message"]), tuple(fields["place"]), str(digest)
