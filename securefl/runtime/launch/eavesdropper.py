"""An eavesdropper at the broker and what it learns: no private key, only the public roster."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from securefl.base.crypto import Roster
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol.kernel import Place
from securefl.protocol.messages import Hello
from securefl.protocol.wire import Header, Payload, decode, open_frame, peek
from securefl.runtime.report import counted, listed

_PREAMBLE: Final = 64
"""Bytes at the start of a masked input's body that are MessagePack framing, not mask."""

_SHOWN: Final = 12
"""Names in one sentence; of more than these, the others are counted."""


class Eavesdropper:
    """Reads the frames of a run and keeps what they tell."""

    def __init__(self, roster: Roster, run: RunId) -> None:
        self._roster = roster
        self._run = run
        self._frames = 0
        self._kinds: Counter[str] = Counter()
        self._rounds: dict[str, set[int]] = {}
        self._samples: dict[str, int] = {}
        self._clusters: dict[Place, set[str]] = {}
        self._model_bytes = 0
        self._masked = np.zeros(256, dtype=np.int64)

    def read(self, frame: bytes) -> Header:
        """Read one frame, note what it tells, and return its header.

        Raises:
            PeerError: nobody on the roster has signed such a frame for this run; nothing was noted.
        """
        payload = peek(frame, "broker")
        header = payload.header
        open_frame(frame, payload, self._roster.member(header.sender), self._run, PartyId(header.recipient))
        if header.kind == "Hello":
            hello = decode(bytes(payload.body), header.sender)
            if isinstance(hello, Hello):
                self._samples[header.sender] = hello.samples
        self._note(payload)
        return header

    def _note(self, payload: Payload) -> None:
        header = payload.header
        self._frames += 1
        if header.part == 0:
            self._kinds[header.kind] += 1
        if header.sender != SERVER:
            self._rounds.setdefault(header.sender, set()).update({header.round} - {-1})
        if header.kind == "KeyAdvert":
            instance = header.place._replace(attempt=0)
            self._clusters.setdefault(instance, set()).add(header.sender)
        elif header.kind == "ModelAnnounce":
            self._model_bytes += len(payload.body)
        elif header.kind == "MaskedInput":
            body = np.frombuffer(payload.body, dtype=np.uint8)[_PREAMBLE:]
            self._masked += np.bincount(body, minlength=256)

    def conclusions(self) -> Iterator[str]:
        """Yield what follows from all frames that were read, in sentences for a person."""
        yield f"an eavesdropper without keys reads {counted(self._frames, 'signed frame')}"
        if self._rounds:
            rounds = set().union(*self._rounds.values())
            when = f", in rounds {min(rounds)} to {max(rounds)}" if rounds else ""
            yield f"it learns who takes part: {listed(sorted(self._rounds), _SHOWN)}{when}"
        if self._samples:
            declared = [f"{name} {count}" for name, count in sorted(self._samples.items())]
            yield f"it learns sample counts, from hellos: {listed(declared, _SHOWN)}"
        if self._clusters:
            place, members = min(self._clusters.items())
            yield (
                f"it learns the members of {counted(len(self._clusters), 'cluster')}, from"
                f" {counted(self._kinds['KeyAdvert'], 'key advert')};"
                f" cluster {place.cluster} of round {place.round}: {listed(sorted(members), _SHOWN)}"
            )
        if self._model_bytes:
            models = counted(self._kinds["ModelAnnounce"], "global model")
            yield f"it reads {models} in clear, {self._model_bytes:,} bytes"
        closed = [
            counted(self._kinds[kind], name)
            for kind, name in (("ShareBoxes", "share-box message"), ("Release", "sealed release"))
            if self._kinds[kind]
        ]
        if closed:
            yield f"it cannot open {listed(closed)}"
        yield from self._uniformity()

    def _uniformity(self) -> Iterator[str]:
        total = int(self._masked.sum())
        if not total:
            return
        expected = total / 256
        statistic = float(((self._masked - expected) ** 2 / expected).sum())
        z = (statistic - 255) / math.sqrt(2 * 255)
        verdict = "look uniform" if abs(z) < 5 else "do NOT look uniform"
        yield (
            f"{total:,} bytes of {counted(self._kinds['MaskedInput'], 'masked input')} {verdict}"
            f" (chi-square {statistic:.0f} on 255 degrees of freedom, z {z:+.1f})"
        )
