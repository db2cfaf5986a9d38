"""A broker that ends connections right after they are made: again, and then no more."""

from __future__ import annotations

import asyncio

import pytest

from securefl.base.errors import RunAbortedError
from securefl.runtime.transport.base import BrokerUrl
from securefl.runtime.transport.mqtt import MqttTransport

_CONNACK, _SUBSCRIBE, _DISCONNECT = b"\x20\x02\x00\x00", 0x82, 0xE0


class Hasty:
    """Just enough of MQTT 3.1.1: it takes a connection, and ends the first few when they subscribe."""

    def __init__(self, ends: int) -> None:
        self.ends = ends
        self.made = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._packet(reader)
        self.made += 1
        writer.write(_CONNACK)
        await writer.drain()
        try:
            while True:
                kind, body = await self._packet(reader)
                if kind == _SUBSCRIBE and self.made <= self.ends:
                    break
                if kind == _SUBSCRIBE:
                    writer.write(b"\x90\x03" + body[:2] + b"\x01")
                elif kind == _DISCONNECT:
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    @staticmethod
    async def _packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
        kind, length = await reader.readexactly(2)
        return kind, await reader.readexactly(length)


async def connected(ends: int) -> tuple[Hasty, Exception | None]:
    hasty = Hasty(ends)
    server = await asyncio.start_server(hasty.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    failure: Exception | None = None
    try:
        transport = await MqttTransport.connect(BrokerUrl("mqtt", "127.0.0.1", port), "hasty", ("topic",))
        await transport.close()
    except RunAbortedError as error:
        failure = error
    server.close()
    return hasty, failure


@pytest.mark.parametrize("ends", [0, 1, 2])
def test_it_is_made_again(ends: int) -> None:
    hasty, failure = asyncio.run(connected(ends))
    assert failure is None
    assert hasty.made == ends + 1


def test_three_that_end_are_an_error() -> None:
    hasty, failure = asyncio.run(connected(99))
    assert "connections end right after they are made" in str(failure)
    assert hasty.made == 3
