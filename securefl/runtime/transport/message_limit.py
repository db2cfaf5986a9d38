"""Largest message that a broker carries, measured for each connection (ADR 0062).

MQTT 3.1.1 cannot announce limits. mosquitto silently drops a message beyond ``message_size_limit``; beyond
``max_packet_size``, or if access rules forbid the topic, it closes the connection. So a second connection
sends a message to the client's own topic, then a few bytes: if only those return, the message was dropped.
"""

import asyncio
import math
import secrets
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, Self

import aiomqtt

from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.runtime.transport import connecting
from securefl.runtime.transport.base import BrokerUrl

WANTED: Final = 512 * 1024
"""Largest frame sent, in bytes."""

SMALLEST: Final = 16 * 1024
"""Smallest usable limit, in bytes."""

_FEW: Final = 32
"""Bytes that every broker carries."""


class ProbeError(aiomqtt.MqttError):
    """Failure to measure a broker, with its ``reason``."""

    def __init__(self, reason: SecureflError) -> None:
        super().__init__(str(reason))
        self.reason = reason


OpenProbe = Callable[[], Awaitable[connecting.Connection]]
"""Opens another connection of this client, with a clean session."""


class _Answer(Enum):
    CAME_BACK = "came back"
    DROPPED = "dropped"
    CLOSED = "closed"
    SILENT = "silent"


class _Probe:
    def __init__(self, url: BrokerUrl, opening: OpenProbe, topic: str, close_within: float) -> None:
        self._url = url
        self._opening = opening
        self._topic = topic
        self._close_within = close_within
        self._connection: connecting.Connection | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._close()

    async def send(self, size: int, within: float) -> _Answer:
        """Send one message of ``size`` bytes and wait for it."""
        connection = await self._open()
        answer = await self._answer(connection, secrets.token_bytes(size), within)
        if answer in {_Answer.CLOSED, _Answer.SILENT}:
            await self._close()
        return answer

    async def is_retained(self, within: float) -> bool:
        """Return False if a request to retain a message closes the connection."""
        connection = await self._open()

        async def retain() -> None:
            for payload in (secrets.token_bytes(_FEW), b""):
                await connection.publish(self._topic, payload, qos=1, retain=True, timeout=math.inf)

        if await _unless_lost(connection, retain(), within) is not _Answer.CLOSED:
            return True
        await self._close()
        return False

    async def _open(self) -> connecting.Connection:
        if self._connection is None:
            try:
                self._connection = await self._opening()
                await self._connection.subscribe_all((self._topic,))
            except aiomqtt.MqttError as error:
                raise ProbeError(connecting.explain(self._url, error)) from error
        return self._connection

    async def _answer(self, connection: connecting.Connection, payload: bytes, within: float) -> _Answer:
        few = secrets.token_bytes(_FEW)
        found = _Answer.DROPPED

        async def converse() -> None:
            nonlocal found
            await connection.publish(self._topic, payload, qos=1, timeout=math.inf)
            await connection.publish(self._topic, few, qos=1, timeout=math.inf)
            async for message in connection.messages:
                connection.acknowledge(message)
                if message.payload == payload:
                    found = _Answer.CAME_BACK
                elif message.payload == few:
                    return

        return await _unless_lost(connection, converse(), within) or found

    async def _close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.end(self._close_within)


async def _unless_lost(
    connection: connecting.Connection, talk: Awaitable[None], within: float
) -> _Answer | None:
    talking, losing = asyncio.ensure_future(talk), asyncio.ensure_future(connection.lost())
    try:
        await asyncio.wait({talking, losing}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        if talking.done() and talking.exception() is None:
            return None
        return _Answer.CLOSED if losing.done() or talking.done() else _Answer.SILENT
    finally:
        for task in (talking, losing):
            task.cancel()
        await asyncio.gather(talking, losing, return_exceptions=True)


class MessageLimit:
    """Largest message of one connection, measured only as far as messages need.

    Probes go over connections by ``opening`` to ``topic``, which no other client writes and this one may
    read. The largest message has ``wanted`` bytes; the answer to a probe takes ``within`` seconds at most.
    Methods raise ProbeError if the broker cannot be reached.
    """

    def __init__(
        self,
        url: BrokerUrl,
        opening: OpenProbe,
        topic: str,
        *,
        wanted: int = WANTED,
        within: float,
        close_within: float,
    ) -> None:
        self._url = url
        self._opening = opening
        self._topic = topic
        self._wanted = wanted
        self._within = within
        self._close_within = close_within
        self._measured = False
        self._retains: bool | None = None
        self.carried = 0
        """Largest message, in bytes, that returned."""

    async def check(self) -> None:
        """Check that the broker carries frames of :data:`SMALLEST` bytes.

        Raises:
            ConfigError: it does not, or it returns nothing at all.
        """
        async with self._probe() as probe:
            answer = await probe.send(SMALLEST, self._within)
            if answer in {_Answer.CLOSED, _Answer.SILENT}:
                # Access rules fail at every size; a lost connection fails once.
                few = await probe.send(_FEW, self._within)
                if few is _Answer.CLOSED:
                    few = await probe.send(_FEW, self._within)
                if few is not _Answer.CAME_BACK:
                    raise self._nothing()
                answer = await probe.send(SMALLEST, self._within)
        if answer is _Answer.SILENT:
            raise ProbeError(
                RunAbortedError(f"{self._url} did not return a test message in {self._within:g} s")
            )
        if answer is not _Answer.CAME_BACK:
            raise self._too_small()
        self.carried = SMALLEST

    async def room_for(self, topic: str, size: int) -> int:
        """Return the maximum bytes of a frame for this topic, measuring if ``size`` bytes need it.

        A packet limit includes the topic, which may be longer than the probes' topic.
        """
        longer = max(0, len(topic.encode()) - len(self._topic.encode()))
        if size + longer > self.carried and not self._measured:
            await self.largest()
        return self.carried - longer

    async def largest(self) -> int:
        """Return the largest of ``wanted``, ``wanted / 2``, ... bytes that the broker carries."""
        size = self._wanted
        async with self._probe() as probe:
            while size > self.carried:
                if await probe.send(size, self._within) is _Answer.CAME_BACK:
                    self.carried = size
                size //= 2
        self._measured = True
        return self.carried

    async def retains(self) -> bool:
        """Return False if a request to retain a message closes the connection."""
        if self._retains is None:
            async with self._probe() as probe:
                # The connection may have ended once for another reason.
                self._retains = await probe.is_retained(self._within) or await probe.is_retained(self._within)
        return self._retains

    def _probe(self) -> _Probe:
        return _Probe(self._url, self._opening, self._topic, self._close_within)

    def _nothing(self) -> ConfigError:
        name = self._topic.rsplit("/", 1)[-1]
        return ConfigError(
            "broker",
            f"{self._url} drops messages to {self._topic}: its access rules know this process by another "
            "name",
            f"the common name of its certificate, or its user, must be {name!r}",
        )

    def _too_small(self) -> ConfigError:
        return ConfigError(
            "broker",
            f"{self._url} rejects messages of {SMALLEST:,} bytes, which securefl needs",
            f"raise its limit (mosquitto: message_size_limit {SMALLEST}, max_packet_size {SMALLEST + 1024})",
        )
