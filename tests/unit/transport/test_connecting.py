"""What a connection makes of a broker's answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.runtime.transport.base import BrokerUrl, MqttLimits
from securefl.runtime.transport.connecting import Connection
from securefl.runtime.transport.mqtt import MqttTransport


@pytest.mark.parametrize(("codes", "refused"), [((1, 1), None), ((1, 0x80), "b/#"), ((0x87, 1), "a/#")])
def test_a_refused_subscription_is_the_configurations_fault(
    codes: tuple[int, ...], refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def answer(_self: Connection, topics: list[tuple[str, int]]) -> tuple[int, ...]:
        asked.extend(topics)
        return codes

    monkeypatch.setattr(Connection, "subscribe", answer)

    async def body() -> None:
        url = BrokerUrl("mqtt", "127.0.0.1", 1)
        connection = Connection(url, "p00", None, MqttLimits(keep_alive=1, in_flight=1, patience=1.0))
        await connection.subscribe_all(())
        assert asked == []
        await connection.subscribe_all(("a/#", "b/#"))

    if refused is None:
        asyncio.run(body())
        assert asked == [("a/#", 1), ("b/#", 1)]
    else:
        with pytest.raises(ConfigError, match=f"does not allow 'p00' to subscribe to {refused}"):
            asyncio.run(body())


@pytest.mark.parametrize("losses", [1, 2, 9])
def test_first_connections_that_are_lost_are_an_accident_up_to_twice(losses: int) -> None:
    """A broker that is restarted takes along who has just come; one that ends all is another matter."""
    came = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        await reader.readuntil(b"p00")
        writer.write(b"\x20\x02\x00\x00")  # CONNACK
        asked = await reader.read(200)
        if came > losses:
            at = asked.index(b"\x82")
            writer.write(b"\x90\x03" + asked[at + 2 : at + 4] + b"\x01")  # SUBACK
            await writer.drain()
            await reader.read()
        writer.close()

    async def body() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = BrokerUrl("mqtt", "127.0.0.1", server.sockets[0].getsockname()[1])
        try:
            transport = await MqttTransport.connect(url, "p00", ("a",), limits=MqttLimits(close_within=0.1))
            await transport.close()
        finally:
            server.close()

    if losses > 2:
        with pytest.raises(
            RunAbortedError, match="the broker ends each connection at once; check that no other program"
        ):
            asyncio.run(body())
        assert came == 3
    else:
        asyncio.run(body())
        assert came == losses + 1


@pytest.mark.parametrize(("silence", "announced"), [(0, 30), (200, 200), (10**6, 65_535)])
def test_a_party_that_may_be_silent_announces_it_and_asks_the_broker_as_often(
    silence: int, announced: int
) -> None:
    """CONNECT states the silence; the client's own questions keep their pace."""
    came: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.readuntil(b"p00"))
        writer.write(b"\x20\x02\x00\x00")  # CONNACK
        await writer.drain()
        await reader.read()
        writer.close()

    async def body() -> int:
        broker = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = BrokerUrl("mqtt", "127.0.0.1", broker.sockets[0].getsockname()[1])
        connection = Connection(
            url, "p00", None, MqttLimits(keep_alive=30, in_flight=1, patience=5.0, silence=silence)
        )
        await connection.open()
        asks: int = connection._client.keepalive  # paho's, behind aiomqtt
        await connection.end(1.0)
        broker.close()
        return asks

    assert asyncio.run(body()) == 30
    at = came[0].index(b"MQTT")
    assert int.from_bytes(came[0][at + 6 : at + 8], "big") == announced
