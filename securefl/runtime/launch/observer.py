"""Observer at the broker: every frame's metadata and hash, and an eavesdropper's conclusions.

It holds no private key, only the public roster. With ``--lab`` frames are kept for audits.
"""

import asyncio
import hashlib
import math
import signal
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from securefl.base import crypto
from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol import kernel, messages, wire
from securefl.runtime import process, report, transcript
from securefl.runtime.launch.interrupts import detach_wakeup
from securefl.runtime.transport import (
    OBSERVER,
    ArrivedFrame,
    Brokers,
    BrokerUrl,
    MqttLimits,
    MqttTransport,
    meeting_of,
)

_PREAMBLE: Final = 64
"""Bytes of MessagePack framing before the mask."""

_SHOWN: Final = 12


class Eavesdropper:
    """Reader of a run's frames that collects their information."""

    def __init__(self, roster: crypto.Roster, run: RunId) -> None:
        self._roster = roster
        self._run = run
        self._frames = 0
        self._kinds: Counter[str] = Counter()
        self._rounds: dict[str, set[int]] = {}
        self._samples: dict[str, int] = {}
        self._clusters: dict[kernel.Place, set[str]] = {}
        self._model_bytes = 0
        self._masked = np.zeros(256, dtype=np.int64)
        self._carried = wire.CarriedFrames()

    def read(self, frame: bytes) -> wire.Header:
        """Read one frame, record its information, and return its header.

        The last carrier of a frame returns that frame's header.

        Raises:
            PeerError: no identity on the roster has signed such a frame for this run; nothing was recorded.
        """
        payload = wire.peek(frame, "broker")
        header = payload.header
        wire.open_frame(
            frame, payload, self._roster.member(header.sender), self._run, PartyId(header.recipient)
        )
        if header.kind == wire.CARRIER:
            carried = self._carried.put(payload)
            if carried is not None and wire.peek(carried, header.sender).header.kind != wire.CARRIER:
                return self.read(carried)
            self._frames += 1
            return header
        if header.kind in {"Hello", "StatingHello"}:
            hello = wire.decode(bytes(payload.body), header.sender)
            if isinstance(hello, messages.Hello):
                self._samples[header.sender] = hello.samples
        self._note(payload)
        return header

    def _note(self, payload: wire.Payload) -> None:
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
        """Yield conclusions from all frames, in sentences for people."""
        yield f"an eavesdropper without keys can read {report.count_of(self._frames, 'signed frame')}"
        if self._rounds:
            rounds = set().union(*self._rounds.values())
            when = f", in rounds {min(rounds)} to {max(rounds)}" if rounds else ""
            yield f"it learns the parties of each round: {report.list_of(sorted(self._rounds), _SHOWN)}{when}"
        if self._samples:
            declared = [f"{name} {count}" for name, count in sorted(self._samples.items())]
            yield f"it learns sample counts, from hellos: {report.list_of(declared, _SHOWN)}"
        if self._clusters:
            place, members = min(self._clusters.items())
            yield (
                f"it learns the members of {report.count_of(len(self._clusters), 'cluster')}, from"
                f" {report.count_of(self._kinds['KeyAdvert'], 'key advert')};"
                f" cluster {place.cluster} of round {place.round}: {report.list_of(sorted(members), _SHOWN)}"
            )
        if self._model_bytes:
            models = report.count_of(self._kinds["ModelAnnounce"], "global model")
            yield f"it reads {models} in clear, {self._model_bytes:,} bytes"
        closed = [
            report.count_of(self._kinds[kind], name)
            for kind, name in (("ShareBoxes", "share-box message"), ("Release", "sealed release"))
            if self._kinds[kind]
        ]
        if closed:
            yield f"it cannot open {report.list_of(closed)}"
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
            f"{total:,} bytes of {report.count_of(self._kinds['MaskedInput'], 'masked input')} {verdict}"
            f" (chi-square {statistic:.0f} on 255 degrees of freedom, z {z:+.1f})"
        )


_OBSERVER = PartyId(OBSERVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    """Settings of an observer, without scenario and key."""

    run: RunId
    broker: BrokerUrl | Brokers
    broker_patience: float = 60.0
    roster_file: Path
    out: Path
    lab: bool = False
    name: PartyId = _OBSERVER


class Observations:
    """Records of the frames that passed the broker.

    Raises:
        ConfigError: the roster is unreadable, or the transcript exists.
    """

    def __init__(self, settings: ObserverSettings) -> None:
        self._eavesdropper = Eavesdropper(crypto.read_roster(settings.roster_file), settings.run)
        folder = settings.out / "transcripts"
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = transcript.TranscriptWriter(
            folder / f"{settings.name}.jsonl", {"run": settings.run, "vantage": "broker"}
        )
        self._lab = settings.out / "lab" / process.LAB_FRAMES if settings.lab else None
        if self._lab is not None:
            self._lab.parent.mkdir(exist_ok=True)
        self._frames = 0
        self._bytes = 0
        self._unreadable = 0
        self.over = False

    def take(self, frame: ArrivedFrame) -> None:
        """Record one frame's metadata and hash; its content in the lab only."""
        self._frames += 1
        self._bytes += len(frame.payload)
        entry: dict[str, transcript.JsonValue] = {
            "time": time.monotonic(),
            "topic": frame.topic,
            "bytes": len(frame.payload),
        }
        entry["sha256"] = hashlib.sha256(frame.payload).hexdigest()
        if frame.payload != process.GONE and not _without_envelope(frame.topic):
            try:
                header = self._eavesdropper.read(frame.payload)
            except PeerError as error:
                self._unreadable += 1
                entry["unreadable"] = error.reason
            else:
                entry |= {
                    "message": header.kind,
                    "from": header.sender,
                    "to": header.recipient,
                    "round": header.round,
                }
                self.over = self.over or (header.kind, header.sender, header.recipient) == (
                    "Goodbye",
                    SERVER,
                    EVERYONE,
                )
        self._writer.append("frame", entry)
        if self._lab is not None:
            with transcript.writing(self._lab), self._lab.open("ab") as file:
                file.write(struct.pack("<I", len(frame.payload)) + frame.payload)

    def conclusions(self) -> Iterator[str]:
        """Yield conclusions from all frames, in sentences for people."""
        yield (
            f"broker's view: {report.count_of(self._frames, 'frame')}, {self._unreadable} of them unreadable,"
            f" {self._bytes:,} bytes"
        )
        yield from self._eavesdropper.conclusions()

    def close(self) -> None:
        """End the transcript."""
        self._writer.close()


def _without_envelope(topic: str) -> bool:
    """Return True for topics without messages of the run: probes, and the leader lock."""
    return "/probe/" in topic or "/peer/" in topic


def watch(settings: ObserverSettings, tell: Callable[[report.News], None]) -> None:
    """Observe until the server ends the run or this process is asked to end.

    Raises:
        ConfigError: roster, folder or broker are refused.
        RunAbortedError: the broker is out of reach, or a write failed.
    """
    observations = asyncio.run(_observe(settings))
    for line in observations.conclusions():
        tell(report.Remark(line))
    tell(report.Ending(kernel.Finished("the run is over")))


async def _observe(settings: ObserverSettings) -> Observations:
    crypto.read_roster(settings.roster_file)
    everything = f"sfl/1/{settings.run}/#"
    transport = await MqttTransport.connect(
        settings.broker,
        f"{settings.run}-{settings.name}",
        (everything,),
        limits=MqttLimits(give_up_after=settings.broker_patience),
        meeting=meeting_of(settings.run, _OBSERVER),
    )
    try:
        # An observer without a broker leaves no transcript.
        observations = Observations(settings)
        try:
            await _take_all(transport, observations)
        finally:
            observations.close()
    finally:
        await transport.close()
    return observations


async def _take_all(transport: MqttTransport, observations: Observations) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    ending = asyncio.create_task(stop.wait())
    try:
        while not observations.over:
            arriving = asyncio.create_task(transport.receive())
            await asyncio.wait({arriving, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not arriving.done():
                arriving.cancel()
                return
            observations.take(arriving.result())
    finally:
        ending.cancel()
        detach_wakeup()
