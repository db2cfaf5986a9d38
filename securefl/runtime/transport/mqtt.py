"""MQTT behind the `Transport` protocol: the only place that knows about brokers at run time.

Why aiomqtt 2.x: it is asyncio-mqtt under its present name, a maintained asyncio client with a stable API
(asyncio-mqtt itself breaks on paho-mqtt 2; amqtt's own client drops what was in flight when a connection
ends; aiomqtt 3 is alpha). What it leaves open is added here: reconnecting, sending again, back-pressure.

MQTT 3.1.1, QoS 1 in both directions, nothing retained but what the caller says (the end of a run), and a
persistent session under a fixed client id, so that the broker keeps what arrives while we reconnect. A broker
that restarts without persistence forgets that session: subscriptions are renewed and unacknowledged frames
sent again on every connection, but a frame that somebody published before we were back is lost, and the
protocol's deadlines deal with it.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import aiomqtt

from securefl.base.errors import ConfigError, RunAbortedError, SecureflError, UsageError
from securefl.runtime.transport.base import (
    ArrivedFrame,
    BrokerUrl,
    Link,
    MqttLimits,
    TransportClosedError,
    check_filter,
    check_topic,
    topic_matches,
)
from securefl.runtime.transport.connecting import Connection, explain

_MQTT_LIMIT = 268_435_400


@dataclass(eq=False, slots=True)
class _Outgoing:
    """A frame that the broker has not acknowledged."""

    topic: str
    payload: bytes
    retain: bool
    done: asyncio.Future[None]


class MqttTransport:
    """One process's connection to the broker; made by `connect`."""

    def __init__(
        self,
        url: BrokerUrl,
        client_id: str,
        subscriptions: tuple[str, ...],
        last_will: tuple[str, bytes] | None,
        limits: MqttLimits,
    ) -> None:
        self._url = url
        self._client_id = client_id
        self._subscriptions = subscriptions
        self._last_will = last_will
        self._limits = limits
        self._jitter = random.SystemRandom()
        self._inbox: deque[ArrivedFrame] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._slots = asyncio.Semaphore(limits.in_flight)
        self._unacknowledged: dict[_Outgoing, None] = {}
        self._unsent: deque[_Outgoing] = deque()
        self._to_send = asyncio.Event()
        self._ended: TransportClosedError | RunAbortedError | None = None
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._link = Link(up=True)
        self._told: Callable[[Link], None] = lambda _link: None
        self.connections = 0
        """How often a connection was made; more than 1 means that there were reconnects."""

    def __repr__(self) -> str:
        return f"MqttTransport({self._client_id!r} at {self._url})"

    @classmethod
    async def connect(
        cls,
        url: BrokerUrl,
        client_id: str,
        subscriptions: tuple[str, ...],
        last_will: tuple[str, bytes] | None = None,
        limits: MqttLimits | None = None,
    ) -> MqttTransport:
        """Connect and subscribe; from here on the connection is kept up.

        ``last_will`` (topic, payload) is published by the broker if this process vanishes without ``close``.

        Raises:
            ConfigError: the broker refuses who we are, or is not who it should be.
            RunAbortedError: the broker is out of reach. The first attempt is the only one.
        """
        for topic_filter in subscriptions:
            check_filter(topic_filter)
        self = cls(url, client_id, subscriptions, last_will, limits or MqttLimits())
        try:
            self._connection = await self._open()
            if self._connection.session_present:
                # What the broker kept for an earlier program of this name is about rounds that are over.
                await self._connection.end(self._limits.close_within)
                forgetting = await self._open(forget=True)
                await forgetting.end(self._limits.close_within)
                self._connection = await self._open()
        except aiomqtt.MqttError as error:
            raise explain(url, error) from None
        self._keeper = asyncio.create_task(self._keep(), name=f"mqtt {client_id}")
        try:
            await self._ready
        except BaseException:
            await self.close()
            raise
        return self

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send one frame and wait for the broker's acknowledgement, over as many connections as it takes."""
        check_topic(topic)
        if len(payload) > _MQTT_LIMIT - len(topic.encode()):
            raise UsageError(f"MQTT carries at most 256 MiB, not {len(payload)} bytes")
        self._check_open()
        async with self._slots:
            self._check_open()
            outgoing = _Outgoing(topic, bytes(payload), retain, asyncio.get_running_loop().create_future())
            self._unacknowledged[outgoing] = None
            self._unsent.append(outgoing)
            self._to_send.set()
            try:
                await outgoing.done
            finally:
                self._unacknowledged.pop(outgoing, None)

    async def receive(self) -> ArrivedFrame:
        """Return the next frame; frames that arrived before the broker was lost are still handed out."""
        while not self._inbox:
            self._check_open()
            self._arrived.clear()
            await self._arrived.wait()
        delivery = self._inbox.popleft()
        self._room.set()
        return delivery

    def watch(self, told: Callable[[Link], None]) -> None:
        """Call ``told`` when the connection breaks, and when it stands again with all subscriptions."""
        self._told = told
        if not self._link.up:
            told(self._link)

    async def close(self) -> None:
        """Unsubscribe and disconnect, or just end if the broker is not there."""
        self._end(TransportClosedError(f"the connection to {self._url} is closed"))
        self._inbox.clear()
        if self._keeper is not None:
            # Python 3.11 loses a cancellation that meets an error in a TaskGroup or a result in wait_for.
            while not self._keeper.done():
                self._keeper.cancel()
                await asyncio.wait([self._keeper], timeout=2 * self._limits.close_within)
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                # An empty session stays behind, not one that collects frames nobody will fetch.
                await connection.unsubscribe_all(self._subscriptions, self._limits.close_within)
            finally:
                await connection.end(self._limits.close_within)

    def _check_open(self) -> None:
        if self._ended is not None:
            # A fresh exception each time: one that is raised twice drags its first traceback along.
            raise type(self._ended)(*self._ended.args)

    def _end(self, error: TransportClosedError | RunAbortedError) -> None:
        """Let every present and future call raise ``error``; the first reason stays."""
        if self._ended is not None:
            return
        self._ended = error
        self._arrived.set()
        self._to_send.set()
        for outgoing in self._unacknowledged:
            if not outgoing.done.done():
                outgoing.done.set_exception(type(error)(*error.args))

    async def _open(self, *, forget: bool = False) -> Connection:
        limits = self._limits
        connection = Connection(
            self._url,
            self._client_id,
            None if forget else self._last_will,
            keep_alive=limits.keep_alive,
            in_flight=limits.in_flight,
            patience=limits.patience,
            forget=forget,
        )
        await connection.open()
        self.connections += 1
        return connection

    async def _keep(self) -> None:
        """Converse, reconnect, converse, until closed or given up."""
        loop = asyncio.get_running_loop()
        troubled_since: float | None = None
        try:
            while self._connection is not None:
                opened = loop.time()
                trouble = await self._converse(self._connection)
                connection, self._connection = self._connection, None
                await connection.end(self._limits.close_within)
                if not self._ready.done():
                    self._ready.set_exception(trouble)
                    return
                if self._ended is not None:
                    return
                self._tell(Link(up=False))
                now = loop.time()
                if troubled_since is None or now - opened >= self._limits.settled:
                    troubled_since = now
                self._connection = await self._reopen(troubled_since, trouble)
        except RunAbortedError as error:
            self._end(error)
        except Exception as error:
            self._end(RunAbortedError(f"the connection to {self._url} failed inside securefl: {error!r}"))

    def _tell(self, link: Link) -> None:
        if link.up != self._link.up:
            self._link = link
            self._told(link)

    async def _reopen(self, troubled_since: float, trouble: SecureflError) -> Connection:
        limits = self._limits
        pause = limits.first_pause
        while True:
            if asyncio.get_running_loop().time() - troubled_since >= limits.give_up_after:
                raise RunAbortedError(f"gave up on {self._url} after {limits.give_up_after:g} s: {trouble}")
            # Jitter, so that all parties do not come back in the same moment.
            await asyncio.sleep(self._jitter.uniform(pause / 2, pause))
            pause = min(2 * pause, limits.longest_pause)
            try:
                return await self._open()
            except aiomqtt.MqttError as error:
                trouble = explain(self._url, error)
            except ConfigError as error:
                trouble = error

    async def _converse(self, connection: Connection) -> SecureflError:
        """Subscribe and move frames both ways until the connection is lost; return why."""
        trouble: SecureflError = RunAbortedError("unknown")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(connection.lost())
                # From the start: amqtt answers to nothing before we acknowledged what it kept for us.
                group.create_task(self._take_in(connection))
                await connection.subscribe_all(self._subscriptions)
                self._check_open()
                if not self._ready.done():
                    self._ready.set_result(None)
                self._tell(Link(up=True, kept=connection.session_present))
                await self._send_out(connection, group)
        except* TransportClosedError as closed:
            trouble = next(error for error in closed.exceptions if isinstance(error, TransportClosedError))
        except* ConfigError as refusals:
            trouble = next(error for error in refusals.exceptions if isinstance(error, ConfigError))
        except* aiomqtt.MqttError:
            trouble = RunAbortedError(
                f"connections end right after they are made; does another program use {self._client_id!r}?"
            )
        # The broker may think that these were delivered (amqtt forgets them with the connection).
        for message in connection.leftovers():
            self._accept(message)
        return trouble

    async def _take_in(self, connection: Connection) -> None:
        async for message in connection.messages:
            while len(self._inbox) >= self._limits.inbox:
                self._room.clear()
                await self._room.wait()
            self._accept(message)
            connection.acknowledge(message)

    def _accept(self, message: aiomqtt.Message) -> None:
        # A session of an earlier run under the same client id may still have other subscriptions.
        topic = message.topic.value
        if any(topic_matches(wanted, topic) for wanted in self._subscriptions):
            self._inbox.append(ArrivedFrame(topic, message.payload))
            self._arrived.set()

    async def _send_out(self, connection: Connection, group: asyncio.TaskGroup) -> None:
        self._unsent = deque(self._unacknowledged)
        while True:
            while self._unsent:
                group.create_task(self._send(connection, self._unsent.popleft()))
            self._to_send.clear()
            await self._to_send.wait()
            self._check_open()

    async def _send(self, connection: Connection, outgoing: _Outgoing) -> None:
        if outgoing.done.done():
            return
        await connection.publish(
            outgoing.topic, outgoing.payload, qos=1, retain=outgoing.retain, timeout=math.inf
        )
        if not outgoing.done.done():
            outgoing.done.set_result(None)
