"""The limit of a broker that drops, that closes, that forbids the topic or answers nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, cast

import aiomqtt
import pytest

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.runtime.transport.base import BrokerUrl
from securefl.runtime.transport.connecting import Connection
from securefl.runtime.transport.message_limit import SMALLEST, WANTED, MessageLimit, ProbeError

URL = BrokerUrl("mqtt", "broker.example", 1883)
TOPIC = "sfl/1/r/probe/p00"
HALVINGS = 6
"""Sizes from the wanted to the smallest."""

Way = Literal["drop", "close", "close once, then drop"]


@dataclass(frozen=True)
class Sent:
    payload: bytes


@dataclass
class FakeBroker:
    """What a broker does with messages beyond its limit, and how many connections it has seen."""

    limit: int
    way: Way = "drop"
    forbids: bool = False
    silent: bool = False
    mute: bool = False
    """It does not even acknowledge messages."""
    retains: bool = True
    losses: int = 0
    """Connections that it closes at their first message, whatever its size."""
    connections: list[FakeConnection] = field(default_factory=list)
    kept: list[bytes] = field(default_factory=list)
    down: bool = False

    async def open(self) -> Connection:
        if self.down:
            raise aiomqtt.MqttError("down") from ConnectionRefusedError("connection refused")
        self.connections.append(FakeConnection(self))
        return cast("Connection", self.connections[-1])

    def limits(self) -> MessageLimit:
        return MessageLimit(
            URL,
            self.open,
            TOPIC,
            within=0.05 if self.silent or self.forbids or self.mute else 60.0,
            close_within=1.0,
        )


class FakeConnection:
    """The part of `Connection` that probes use."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self._arrived: asyncio.Queue[Sent] = asyncio.Queue()
        self._closed = asyncio.Event()
        self.ended = False

    async def subscribe_all(self, filters: tuple[str, ...]) -> None:
        assert filters == (TOPIC,)

    async def publish(self, topic: str, payload: bytes, *, qos: int, timeout: float, **more: bool) -> None:
        broker = self._broker
        assert (topic, qos) == (TOPIC, 1)
        if broker.mute:
            await asyncio.Event().wait()
        if more.get("retain"):
            broker.kept.append(payload)
        if broker.losses or (more.get("retain") and not broker.retains):
            broker.losses = max(0, broker.losses - 1)
            await self._close()
        if len(payload) > broker.limit:
            if broker.way == "close" or (broker.way != "drop" and broker.connections.index(self) == 0):
                await self._close()
            return
        if not broker.forbids and not broker.silent:
            self._arrived.put_nowait(Sent(payload))

    async def _close(self) -> None:
        self._closed.set()
        await asyncio.Event().wait()

    @property
    def messages(self) -> AsyncIterator[Sent]:
        async def arriving() -> AsyncIterator[Sent]:
            while True:
                yield await self._arrived.get()

        return arriving()

    def acknowledge(self, message: Sent) -> None:
        assert message.payload

    async def lost(self) -> None:
        await self._closed.wait()
        raise aiomqtt.MqttError("lost")

    async def end(self, within: float) -> None:
        self.ended = True


def run(broker: FakeBroker, body: Callable[[MessageLimit], Awaitable[None]]) -> None:
    asyncio.run(body(broker.limits()))  # type: ignore[arg-type] # a coroutine
    assert all(connection.ended for connection in broker.connections)


@pytest.mark.parametrize("way", ["drop", "close", "close once, then drop"])
@pytest.mark.parametrize(
    ("limit", "carried"),
    [
        (SMALLEST, SMALLEST),
        (2 * SMALLEST - 1, SMALLEST),
        (2 * SMALLEST, 2 * SMALLEST),
        (WANTED - 1, WANTED // 2),
        (WANTED, WANTED),
        (10 * WANTED, WANTED),
    ],
)
def test_the_limit_is_found_on_both_sides_of_each_size(limit: int, carried: int, way: Way) -> None:
    broker = FakeBroker(limit, way)

    async def body(limits: MessageLimit) -> None:
        await limits.check()
        assert limits.carried == SMALLEST
        assert len(broker.connections) == 1
        assert await limits.largest() == carried

    run(broker, body)
    assert len(broker.connections) <= 1 + HALVINGS


@pytest.mark.parametrize("way", ["drop", "close", "close once, then drop"])
def test_a_broker_that_carries_too_little_is_named_with_the_size_it_must_carry(way: Way) -> None:
    broker = FakeBroker(SMALLEST - 1, way)

    async def body(limits: MessageLimit) -> None:
        with pytest.raises(ConfigError) as caught:
            await limits.check()
        assert caught.value.path == "broker"
        assert f"{URL} rejects messages of 16,384 bytes" in caught.value.reason
        assert "message_size_limit 16384" in caught.value.remedy
        assert "max_packet_size 17408" in caught.value.remedy

    run(broker, body)
    assert len(broker.connections) <= 3


@pytest.mark.parametrize("way", ["drop", "close"])
def test_small_frames_need_no_measurement_and_large_ones_a_single_one(way: Way) -> None:
    broker = FakeBroker(100_000, way)

    async def body(limits: MessageLimit) -> None:
        await limits.check()
        assert await limits.room_for(TOPIC, SMALLEST) == SMALLEST
        assert len(broker.connections) == 1
        for size in (SMALLEST + 1, 65_536, 65_537, WANTED):
            assert await limits.room_for(TOPIC, size) == 65_536
        made = len(broker.connections)
        assert await limits.room_for(TOPIC, WANTED) == 65_536
        assert len(broker.connections) == made

    run(broker, body)


def test_a_topic_that_is_longer_than_that_of_the_probes_takes_from_the_room() -> None:
    """A packet limit counts the topic; the one of the probes has passed with exactly this size."""
    broker = FakeBroker(SMALLEST)

    async def body(limits: MessageLimit) -> None:
        await limits.check()
        assert await limits.room_for(TOPIC + "-longer", SMALLEST - 7) == SMALLEST - 7
        assert len(broker.connections) == 1
        assert await limits.room_for(TOPIC + "-longer", SMALLEST - 6) == SMALLEST - 7
        assert await limits.room_for(TOPIC[:-1], SMALLEST) == SMALLEST

    run(broker, body)


@pytest.mark.parametrize("losses", [1, 2])
def test_connections_that_are_lost_once_do_not_count_as_a_limit(losses: int) -> None:
    broker = FakeBroker(WANTED, losses=losses)

    async def body(limits: MessageLimit) -> None:
        await limits.check()
        assert limits.carried == SMALLEST

    run(broker, body)


@pytest.mark.parametrize("fault", ["forbids", "silent", "closes"])
def test_a_topic_from_which_nothing_comes_back_is_a_matter_of_access_rules(fault: str) -> None:
    broker = FakeBroker(
        WANTED, silent=fault == "silent", forbids=fault == "forbids", losses=9 * (fault == "closes")
    )

    async def body(limits: MessageLimit) -> None:
        with pytest.raises(ConfigError, match="know this process by another name") as caught:
            await limits.check()
        assert "must be 'p00'" in caught.value.remedy

    run(broker, body)


def test_a_broker_that_is_gone_is_not_one_with_a_limit() -> None:
    broker = FakeBroker(WANTED, down=True)

    async def body(limits: MessageLimit) -> None:
        with pytest.raises(ProbeError, match="connection refused") as caught:
            await limits.check()
        assert isinstance(caught.value.reason, RunAbortedError)

    run(broker, body)


@pytest.mark.parametrize("retains", [True, False])
def test_retention_is_tried_once_and_leaves_nothing(retains: bool) -> None:
    broker = FakeBroker(WANTED, retains=retains)

    async def body(limits: MessageLimit) -> None:
        assert await limits.retains() is retains
        assert await limits.retains() is retains

    run(broker, body)
    assert len(broker.connections) == (1 if retains else 2)
    assert not retains or broker.kept[-1] == b""


@pytest.mark.parametrize("fault", ["loses one connection", "is silent"])
def test_retention_is_not_given_up_for_another_reason(fault: str) -> None:
    broker = FakeBroker(WANTED, losses=int(fault != "is silent"), mute=fault == "is silent")

    async def body(limits: MessageLimit) -> None:
        assert await limits.retains()

    run(broker, body)
