"""An observer at the broker: metadata and hash of every frame, and what an eavesdropper learns from them.

It holds no private key, only the public roster. With ``--lab`` the frames themselves are kept, for audits.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from securefl.base.crypto import read_roster
from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.kernel import Finished
from securefl.runtime.launch.eavesdropper import Eavesdropper
from securefl.runtime.process import GONE, LAB_FRAMES
from securefl.runtime.report import Ending, News, Remark, counted
from securefl.runtime.transcript import JsonValue, TranscriptWriter, disk_failure
from securefl.runtime.transport import OBSERVER, ArrivedFrame, BrokerUrl, MqttTransport

_OBSERVER = PartyId(OBSERVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    """Settings of an observer. No scenario and no key."""

    run: RunId
    broker: BrokerUrl
    roster_file: Path
    out: Path
    lab: bool = False
    name: PartyId = _OBSERVER


class Observations:
    """Records of the frames that passed the broker.

    Raises:
        ConfigError: the roster cannot be read, or the transcript exists already.
    """

    def __init__(self, settings: ObserverSettings) -> None:
        self._eavesdropper = Eavesdropper(read_roster(settings.roster_file), settings.run)
        folder = settings.out / "transcripts"
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = TranscriptWriter(
            folder / f"{settings.name}.jsonl", {"run": settings.run, "vantage": "broker"}
        )
        self._lab = settings.out / "lab" / LAB_FRAMES if settings.lab else None
        if self._lab is not None:
            self._lab.parent.mkdir(exist_ok=True)
        self._frames = 0
        self._bytes = 0
        self._unreadable = 0
        self.over = False
        """Whether the server has said goodbye."""

    def take(self, frame: ArrivedFrame) -> None:
        """Note one frame: its metadata and its hash; its content in the lab only."""
        self._frames += 1
        self._bytes += len(frame.payload)
        entry: dict[str, JsonValue] = {
            "time": time.monotonic(),
            "topic": frame.topic,
            "bytes": len(frame.payload),
        }
        entry["sha256"] = hashlib.sha256(frame.payload).hexdigest()
        if frame.payload != GONE and not _without_envelope(frame.topic):
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
            try:
                with self._lab.open("ab") as file:
                    file.write(struct.pack("<I", len(frame.payload)) + frame.payload)
            except OSError as error:
                raise disk_failure(self._lab, error) from error

    def conclusions(self) -> Iterator[str]:
        """Yield what follows from all that passed, in sentences for a person."""
        yield (
            f"broker's view: {counted(self._frames, 'frame')}, {self._unreadable} of them unreadable,"
            f" {self._bytes:,} bytes"
        )
        yield from self._eavesdropper.conclusions()

    def close(self) -> None:
        """End the transcript."""
        self._writer.close()


def _without_envelope(topic: str) -> bool:
    """Whether what passes there is no message of the run: probes, and what servers ask each other before."""
    return "/probe/" in topic or "/peer/" in topic


def watch(settings: ObserverSettings, tell: Callable[[News], None]) -> None:
    """Observe until the server says goodbye or this process is asked to end.

    Raises:
        ConfigError: roster, folder or broker are refused.
        RunAbortedError: the broker is out of reach, or the disk is full.
    """
    observations = asyncio.run(_observe(settings))
    for line in observations.conclusions():
        tell(Remark(line))
    tell(Ending(Finished("the run is over")))


async def _observe(settings: ObserverSettings) -> Observations:
    read_roster(settings.roster_file)
    everything = f"sfl/1/{settings.run}/#"
    transport = await MqttTransport.connect(settings.broker, f"{settings.run}-{settings.name}", (everything,))
    try:
        # Only now: an observer that finds no broker leaves no transcript.
        observations = Observations(settings)
        try:
            await _take_all(transport, observations)
        finally:
            observations.close()
    finally:
        await transport.close()
    return observations


async def _take_all(transport: MqttTransport, observations: Observations) -> None:
    """Take frames until the run is over or a signal asks to end."""
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
