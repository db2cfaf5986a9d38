"""A TCP relay in front of a broker, in a thread of its own, that resets connections when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from securefl.runtime.transport.base import BrokerUrl

ResultT = TypeVar("ResultT")

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends RST."""


class Relay:
    """Use as a context manager. Clients are known by the names that their MQTT client ids end with."""

    def __init__(self, target: BrokerUrl) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._clients: dict[str, set[asyncio.StreamWriter]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections: list[str] = []
        """Client ids in the order in which they connected."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._call(lambda: asyncio.start_server(self._relay, "127.0.0.1", 0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def reset(self, names: Iterable[str]) -> None:
        """Reset the connections of these processes; they may connect again at once."""
        wanted = tuple(f"-{name}" for name in names)

        async def cut() -> None:
            for client, ends in self._clients.items():
                if client.endswith(wanted):
                    for end in ends:
                        sock: socket.socket = end.get_extra_info("socket")
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                        end.transport.abort()

        self._call(cut)

    def _call(self, made: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(made(), self._loop).result()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            first = await reader.read(4096)
            client = _client_id(first)
            self.connections.append(client)
            far_reader, far_writer = await asyncio.open_connection(self._target.host, self._target.port)
            ends = self._clients.setdefault(client, set())
            ends |= {writer, far_writer}
            far_writer.write(first)
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
            ends -= {writer, far_writer}
        writer.transport.abort()

    async def _close(self) -> None:
        self._server.close()
        for ends in self._clients.values():
            for end in ends:
                end.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()


def _client_id(connect: bytes) -> str:
    """The client id in a CONNECT packet of MQTT 3.1.1 (section 3.1): after 10 bytes of variable header."""
    start = 1
    while connect[start] & 0x80:
        start += 1
    (length,) = struct.unpack_from("!H", connect, start + 11)
    return connect[start + 13 : start + 13 + length].decode()
