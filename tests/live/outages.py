"""Brokers that are killed, restarted or given up for another one, in the midst of a round's steps.

A listener at the broker sees the frames of a run go by; the first one of a kind is where something happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from securefl.base.errors import PeerError
from securefl.protocol.messages import (
    BoxList,
    Endorse,
    Goodbye,
    Hello,
    JoinRun,
    KeyAdvert,
    MaskedInput,
    ModelAnnounce,
    Release,
    Reveal,
    ShareBoxes,
)
from securefl.protocol.wire import CARRIER, peek
from securefl.runtime.transport.addresses import Brokers
from securefl.runtime.transport.base import BrokerUrl, MqttLimits
from securefl.runtime.transport.broker import BrokerKind, RunningBroker, start_embedded, start_mosquitto
from securefl.runtime.transport.mqtt import MqttTransport

Fault = Literal["kill", "restart", "swap"]
"""SIGKILL and SIGTERM, and the same broker again; SIGKILL, and another one instead."""

STEPS: Mapping[str, str] = {
    "join": JoinRun.__name__,
    "model": ModelAnnounce.__name__,
    "hello": Hello.__name__,
    "reveal": Reveal.__name__,
    "keys": KeyAdvert.__name__,
    "shares": ShareBoxes.__name__,
    "training": BoxList.__name__,
    "inputs": MaskedInput.__name__,
    "certify": Endorse.__name__,
    "release": Release.__name__,
    "goodbye": Goodbye.__name__,
}
"""Steps of a run, and the first frame of each."""
OUTSIDE = ("join", "goodbye")
"""Steps that are of no round."""

At = tuple[int, str]
"""A round, -1 before the first and after the last one, and a step of it."""

PERSISTENT = ("persistence true", "autosave_interval 1800")
_LISTENS = MqttLimits(first_pause=0.02, longest_pause=0.1, give_up_after=3600.0)


@dataclass
class Ground:
    """The brokers of a run: one, or two that know nothing of each other. One of them is up at a time."""

    kind: BrokerKind
    folder: Path
    persistent: bool = False
    addresses: int = 1
    limits: tuple[str, ...] = ()
    """Lines of mosquitto's configuration, of each start one; the last one also of later starts."""
    starts: int = 0
    up: RunningBroker | None = None
    at: int = 0
    ports: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for _ in range(self.addresses):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.ports.append(free.getsockname()[1])

    @property
    def brokers(self) -> Brokers:
        return Brokers(tuple(BrokerUrl("mqtt", "127.0.0.1", port) for port in self.ports))

    def start(self) -> None:
        folder, port = self.folder / f"broker-{self.at}", self.ports[self.at]
        if self.kind == "embedded":
            self.up = start_embedded(folder, port=port)
            return
        folder.mkdir(parents=True, exist_ok=True)
        lines: tuple[str, ...] = (*PERSISTENT, f"persistence_location {folder}/") if self.persistent else ()
        lines += self.limits[self.starts :][:1] or self.limits[-1:]
        self.starts += 1
        self.up = start_mosquitto(folder, port=port, extra_lines=lines)

    def stop(self) -> None:
        if self.up is not None:
            self.up.stop()

    def suffer(self, fault: Fault, down: float) -> None:
        """Do it; ``down`` seconds later there is a broker again."""
        assert self.up is not None
        if fault != "restart":
            os.kill(self.up.pid, signal.SIGKILL)
        self.up.stop()
        if fault == "swap":
            self.at = (self.at + 1) % self.addresses
        time.sleep(down)  # the outage itself, not a wait for something
        self.start()


def once_each(
    ground: Ground, fault: Fault, down: float, steps: Sequence[str]
) -> dict[At, Callable[[], None]]:
    """The same fault in every one of these steps, each in a round of its own."""
    rounds = iter(range(len(steps)))
    at = {step: -1 if step in OUTSIDE else next(rounds) for step in steps}
    return {(at[step], step): partial(ground.suffer, fault, down) for step in steps}


@contextmanager
def broken(ground: Ground, acts: Mapping[At, Callable[[], None]]) -> Iterator[list[At]]:
    """A broker, and what is done at the first frame of a round's step. Yields what has been done so far."""
    with acting(ground.brokers, acts, ground.start, ground.stop) as done:
        yield done


@contextmanager
def acting(
    brokers: BrokerUrl | Brokers,
    acts: Mapping[At, Callable[[], None]],
    start: Callable[[], None] = lambda: None,
    stop: Callable[[], None] = lambda: None,
) -> Iterator[list[At]]:
    """The same with brokers that ``start`` starts, if they do not run already, and ``stop`` ends."""
    done: list[At] = []
    todo: queue.Queue[tuple[At, Callable[[], None]] | None] = queue.Queue()
    waiting = {(at[0], STEPS[at[1]]): (at, act) for at, act in acts.items()}
    over, begun, listening = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        # One thread starts them all, and lives as long as they do: they end with it.
        try:
            start()
            begun.set()
            while (item := todo.get()) is not None:
                at, act = item
                act()
                done.append(at)
        finally:
            begun.set()
            stop()

    async def listen() -> None:
        try:
            heard = await MqttTransport.connect(brokers, "listener", ("sfl/1/#",), limits=_LISTENS)
        finally:
            listening.set()
        try:
            while not over.is_set():
                with contextlib.suppress(TimeoutError, PeerError):
                    async with asyncio.timeout(0.2):
                        frame = await heard.receive()
                    payload = peek(frame.payload, "broker")
                    if payload.header.kind == CARRIER and payload.header.part == 0:
                        # The first piece begins with the header of the frame that they carry.
                        payload = peek(bytes(payload.body), "broker")
                    header = payload.header
                    item = waiting.pop((header.round, header.kind), None)
                    if item is not None:
                        todo.put(item)
        finally:
            await heard.close()

    with ThreadPoolExecutor(2) as pool:
        working = pool.submit(work)
        begun.wait()
        hearing = pool.submit(asyncio.run, listen())
        listening.wait()
        try:
            yield done
        finally:
            over.set()
            hearing.result()
            todo.put(None)
            working.result()
