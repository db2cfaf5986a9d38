"""Links between processes and the broker: a relay with a port for each process, broken as it is told.

All run in a thread of their own. Frames that go up are seen whole, one packet at a time, so that a watcher
can hold one back; what comes down passes as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from securefl.runtime.transport.base import BrokerUrl
from tests.chaos.faults import Way
from tests.chaos.packets import CONNECT, Seen, frame_in, kind_of, level_of, read_packet

ResultT = TypeVar("ResultT")
Watcher = Callable[[Seen], Awaitable[None] | None]
"""Called in the links' thread with each frame; what it returns is awaited before the frame goes on."""

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends RST."""
_PIECE = 65_536


class Link:
    """The way of one process to the broker. Its methods are called in the links' thread."""

    def __init__(self, name: str, broker: BrokerUrl, watch: Watcher) -> None:
        self.name = name
        self.port = 0
        self._broker = broker
        self._watch = watch
        self._server: asyncio.Server | None = None
        self._open: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.passes = asyncio.Event()
        """Not set while the link is cut."""
        self.passes.set()
        self.rate = 0.0
        """Bytes a second; 0 for as many as there are."""
        self.late = 0.0

    async def listen(self) -> None:
        """Take connections, at the same port as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Take no connection any more: without a broker nobody listens."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def reset(self) -> None:
        """Reset what is connected."""
        for one in self._open:
            one.reset()

    def swallow(self, way: Way) -> None:
        """Let what is connected now swallow bytes for ever."""
        for one in self._open:
            one.swallows |= {"up", "down"} if way == "both" else {way}

    async def close(self) -> None:
        """End it and all its connections."""
        self.refuse()
        for one in self._open:
            one.reset()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self.passes.wait()
            far_reader, far_writer = await asyncio.open_connection(self._broker.host, self._broker.port)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(self, (reader, writer), (far_reader, far_writer))
        self._open.add(connection)
        try:
            await connection.pump()
        finally:
            self._open.discard(connection)


class _Connection:
    """One connection of a process, and the one that stands for it at the broker."""

    def __init__(
        self,
        link: Link,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._link = link
        self._near = near
        self._far = far
        self.swallows: set[str] = set()
        self._level = 4

    def reset(self) -> None:
        for _, writer in (self._near, self._far):
            sock: socket.socket = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    async def pump(self) -> None:
        await asyncio.gather(self._up(), self._down())

    async def _up(self) -> None:
        reader, writer = self._near[0], self._far[1]
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while packet := await read_packet(reader):
                if kind_of(packet) == CONNECT:
                    self._level = level_of(packet)
                seen = frame_in(packet, self._level, self._link.name, time.monotonic())
                if seen is not None and (waiting := self._link._watch(seen)) is not None:
                    await waiting
                await self._pass(packet, writer, "up")
        self._ended(writer, "up")

    async def _down(self) -> None:
        reader, writer = self._far[0], self._near[1]
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                await self._pass(data, writer, "down")
        self._ended(writer, "down")

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter, way: str) -> None:
        link = self._link
        if link.late or link.rate:
            await asyncio.sleep(link.late + (len(data) / link.rate if link.rate else 0.0))
        await link.passes.wait()
        if way not in self.swallows:
            writer.write(data)
            await writer.drain()

    def _ended(self, writer: asyncio.StreamWriter, way: str) -> None:
        """Pass on that one side has closed, unless that is swallowed, too."""
        if way not in self.swallows:
            with contextlib.suppress(OSError):
                writer.close()


class Links:
    """All links of a federation. Use as a context manager."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="links", daemon=True)
        self._links: dict[str, Link] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def close() -> None:
            for link in self._links.values():
                await link.close()

        self.do(close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def open(self, name: str, broker: BrokerUrl, watch: Watcher) -> str:
        """A link for one process; returns the address that it is to be given."""

        async def make() -> Link:
            link = Link(name, broker, watch)
            await link.listen()
            return link

        link = self._links[name] = self.do(make)
        return f"mqtt://127.0.0.1:{link.port}"

    def tell(self, act: Callable[[Link], None], *names: str) -> None:
        """Do this to the links of these processes."""

        async def told() -> None:
            for name in names:
                act(self._links[name])

        self.do(told)

    def broker_is(self, *, there: bool) -> None:
        """Nobody listens while there is no broker."""

        async def change() -> None:
            for link in self._links.values():
                if there:
                    await link.listen()
                else:
                    link.refuse()

        self.do(change)

    def do(self, made: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Run this in the links' thread, and wait for it."""
        return asyncio.run_coroutine_threadsafe(made(), self.loop).result()
