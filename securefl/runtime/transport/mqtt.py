"""`Transport` over MQTT: the only module that uses brokers at run time.

It adds reconnecting, resending and back-pressure to aiomqtt 2 (ADR 0002): MQTT 3.1.1, QoS 1 both ways, a
persistent session under a fixed client id. Every connection renews subscriptions and resends frames,
acknowledged ones included, as a broker may lose its state (ADR 0032, 0055). Larger frames are sent in
carriers (ADR 0062).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

import aiomqtt

from securefl.base import logs
from securefl.base.errors import ConfigError, RunAbortedError, SecureflError, UsageError
from securefl.runtime.transport import addresses, base, broker_connection
from securefl.runtime.transport.broker_choice import ANSWERS, WORDS, Company, Meeting
from securefl.runtime.transport.connecting import Connection
from securefl.runtime.transport.message_limit import ProbeError
from securefl.runtime.transport.outbound import Outbound, OutgoingFrame

_LOG = logs.log_of("runtime.transport")
_MQTT_LIMIT = 268_435_400

_AT_ONCE = 1.0
"""Seconds: a broker that ends a connection sooner does not accept it."""
_TRIES = 3
"""Fewer first connections that end early are an accident, such as a broker restart."""


class _MovedError(Exception):
    """No process is heard at this broker: move to another."""


class MqttTransport:
    """Connection of one process to the broker; created by `connect`."""

    def __init__(
        self,
        brokers: addresses.Brokers,
        client_id: str,
        subscriptions: tuple[str, ...],
        last_will: tuple[str, bytes] | None,
        limits: base.MqttLimits,
        meeting: Meeting | None,
        probe: str | None = None,
    ) -> None:
        self._brokers = brokers
        self._client_id = client_id
        self._subscriptions = subscriptions
        self._will = b"" if last_will is None else last_will[1]
        self._limits = limits
        self._meeting = meeting
        self._probe = probe
        self._reach = broker_connection.Reach(brokers, client_id, last_will, limits)
        self._inbox: deque[base.ArrivedFrame] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._slots = asyncio.Semaphore(limits.in_flight)
        self._unacknowledged: dict[OutgoingFrame, None] = {}
        self._unsent: deque[OutgoingFrame] = deque()
        self._to_send = asyncio.Event()
        self._ended: base.TransportClosedError | RunAbortedError | None = None
        self._reached: broker_connection.Reached | None = None
        self._next: broker_connection.Reached | None = None
        self._met = False
        self._keeper: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._link = base.Link(up=True)
        self._troubled_since: float | None = None
        self._told: Callable[[base.Link], None] = lambda _link: None
        self._lost: Callable[[bool], Iterable[base.LostFrame]] = lambda _kept: ()
        self._carriers: base.Carriers | None = None
        self._outbound: Outbound | None = None

    def __repr__(self) -> str:
        return f"MqttTransport({self._client_id!r} at {self._brokers})"

    @classmethod
    async def connect(
        cls,
        brokers: base.BrokerUrl | addresses.Brokers,
        client_id: str,
        subscriptions: tuple[str, ...],
        last_will: tuple[str, bytes] | None = None,
        limits: base.MqttLimits | None = None,
        meeting: Meeting | None = None,
        probe: str | None = None,
    ) -> MqttTransport:
        """Connect to the first broker that accepts this client, subscribe, and keep the connection up.

        The broker publishes ``last_will`` (topic, payload) if this process vanishes. The client answers the
        processes of ``meeting`` and, of several brokers, stays at theirs. Each connection's largest message
        is measured over ``probe``, a topic that only this client writes and that it may read.

        Raises:
            ConfigError: the brokers refuse this client, cannot be authenticated, or carry too little.
            RunAbortedError: they stay out of reach.
        """
        for topic_filter in subscriptions:
            base.check_filter(topic_filter)
        listed = addresses.as_brokers(brokers)
        self = cls(listed, client_id, subscriptions, last_will, limits or base.MqttLimits(), meeting, probe)
        self._reached = await self._reach.first()
        self._keeper = asyncio.create_task(self._keep(), name=f"mqtt {client_id}")
        try:
            await self._ready
        except BaseException:
            await self.close()
            raise
        return self

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send one frame and wait for its acknowledgement, across reconnects."""
        base.check_topic(topic)
        if len(payload) > _MQTT_LIMIT - len(topic.encode()):
            raise UsageError(
                f"payload must fit into a message of MQTT, at most 256 MiB; found {len(payload)} bytes"
            )
        self._check_open()
        _LOG.debug("%s sends %d bytes to %s", self._client_id, len(payload), topic)
        async with self._slots:
            self._check_open()
            outgoing = OutgoingFrame(
                topic, bytes(payload), retain, asyncio.get_running_loop().create_future()
            )
            self._unacknowledged[outgoing] = None
            self._unsent.append(outgoing)
            self._to_send.set()
            try:
                await outgoing.done
            finally:
                self._unacknowledged.pop(outgoing, None)

    async def receive(self) -> base.ArrivedFrame:
        """Return the next frame, also frames that arrived before the broker was lost."""
        while not self._inbox:
            self._check_open()
            self._arrived.clear()
            await self._arrived.wait()
        delivery = self._inbox.popleft()
        self._room.set()
        _LOG.debug("%s receives %d bytes from %s", self._client_id, len(delivery.payload), delivery.topic)
        return delivery

    def watch(
        self,
        on_change: Callable[[base.Link], None],
        lost: Callable[[bool], Iterable[base.LostFrame]] = lambda _kept: (),
        carriers: base.Carriers | None = None,
    ) -> None:
        """See :meth:`base.Transport.watch`."""
        self._told = on_change
        self._lost = lost
        self._carriers = carriers
        if not self._link.up:
            on_change(self._link)

    async def close(self) -> None:
        """Unsubscribe and disconnect, or just stop if the broker is gone."""
        self._end(base.TransportClosedError(f"the connection to {self._reach.url} is closed"))
        self._inbox.clear()
        if self._keeper is not None:
            # Python 3.11 loses a cancellation that meets an error in a TaskGroup or a result in wait_for.
            while not self._keeper.done():
                self._keeper.cancel()
                await asyncio.wait([self._keeper], timeout=2 * self._limits.close_within)
        standing = [one for one in (self._reached, self._next) if one is not None]
        self._reached = self._next = None
        for reached in standing:
            await self._leave(reached.connection)

    async def _leave(self, connection: Connection) -> None:
        try:
            # Leave no session behind that collects frames.
            await connection.unsubscribe_all(self._subscriptions, self._limits.close_within)
        finally:
            await connection.end(self._limits.close_within)

    @property
    def connections(self) -> int:
        """Number of connections made, reconnects included."""
        return self._reach.connections

    def _check_open(self) -> None:
        if self._ended is not None:
            # An exception raised twice carries its first traceback.
            raise type(self._ended)(*self._ended.args)

    def _end(self, error: base.TransportClosedError | RunAbortedError) -> None:
        """Let every present and future call raise ``error``; the first error stays."""
        if self._ended is not None:
            return
        self._ended = error
        self._arrived.set()
        self._to_send.set()
        for outgoing in self._unacknowledged:
            if not outgoing.done.done():
                outgoing.done.set_exception(type(error)(*error.args))

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        first, tries = loop.time() + self._limits.first_within, 0
        try:
            while self._reached is not None:
                began, was_up = loop.time(), self._link.up
                waiting = bool(self._unacknowledged)
                self._reach.at = self._reached.at
                trouble = await self._converse(self._reached)
                reached, self._reached = self._reached, None
                if self._next is None:
                    await reached.connection.end(self._limits.close_within)
                else:
                    await self._leave(reached.connection)
                    self._reached, self._next = self._next, None
                tries += 1
                late = tries >= _TRIES and loop.time() >= first
                if not self._ready.done() and (isinstance(trouble, ConfigError) or late):
                    self._ready.set_exception(trouble)
                    return
                if self._ended is not None:
                    return
                if self._reached is not None and not self._met:
                    # No frame is lost without other processes; the time of failures continues.
                    continue
                now, refused = loop.time(), isinstance(trouble, ConfigError)
                stood = now - began if was_up or self._link.up else 0.0
                # No progress while pending frames do not get through.
                carried = self._outbound is not None and self._outbound.acknowledged > 0
                stuck = refused or (waiting and not carried)
                if self._troubled_since is None or (stood >= self._limits.settled and not stuck):
                    self._troubled_since = now
                self._tell(base.Link(up=False))
                if self._reached is None:
                    short_lived = refused or now - began < _AT_ONCE
                    self._reached = await self._reach.again(
                        trouble, self._troubled_since, here=not short_lived, short_lived=short_lived
                    )
        except RunAbortedError as error:
            self._give_up(error)
        except Exception as error:
            reason = f"the connection to {self._reach.url} failed inside securefl: {error!r}"
            self._give_up(RunAbortedError(reason))

    def _give_up(self, error: RunAbortedError) -> None:
        self._end(error)
        if not self._ready.done():
            self._ready.set_exception(error)

    def _tell(self, link: base.Link) -> None:
        if link.up != self._link.up:
            self._link = link
            if link.up:
                _LOG.info("%s connected again to %s", self._client_id, self._reach.url)
            else:
                _LOG.warning("%s lost the connection to %s", self._client_id, self._reach.url)
            self._told(link)

    async def _converse(self, reached: broker_connection.Reached) -> SecureflError:
        connection = reached.connection
        company = Company(self._meeting, self._will, asyncio.get_running_loop().time)
        limit = None if self._probe is None else self._reach.limit_at(reached.at, self._probe)
        self._outbound = None
        trouble: SecureflError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(connection.lost())
                # From the start: amqtt answers nothing before its queued frames are acknowledged.
                group.create_task(self._take_in(connection, company, group))
                await connection.subscribe_all(self._subscriptions)
                self._check_open()
                if limit is not None:
                    await limit.check()
                if self._meeting is not None and len(self._brokers) > 1:
                    group.create_task(self._look_around(connection, company))
                    if self._ready.done() and self._meeting.waits:
                        # Frames sent without other processes at the broker are lost.
                        await company.met.wait()
                self._stands(kept=reached.kept)
                self._outbound = Outbound(self._reach.url, connection, limit)
                await self._send_out(self._outbound, group)
        except* (base.TransportClosedError, ConfigError) as refusals:
            trouble = next(error for error in refusals.exceptions if isinstance(error, SecureflError))
        except* RunAbortedError as given_up:
            self._end(next(error for error in given_up.exceptions if isinstance(error, RunAbortedError)))
        except* ProbeError as failures:
            trouble = next(error.reason for error in failures.exceptions if isinstance(error, ProbeError))
        except* (_MovedError, aiomqtt.MqttError):
            pass
        trouble = trouble or self._ended_at_once()
        # The broker may count these as delivered (amqtt forgets them).
        for message in connection.leftovers():
            self._accept(_frame_of(message))
        return trouble

    def _ended_at_once(self) -> SecureflError:
        reason = "the broker ends each connection at once"
        remedy = f"check that no other program uses the client id {self._client_id!r}"
        largest = None if self._outbound is None else self._outbound.largest
        if largest is not None:
            reason += f", with messages of up to {largest:,} bytes under way"
            remedy += ", and that the broker accepts such messages"
        return RunAbortedError(f"{reason}; {remedy}")

    def _stands(self, *, kept: bool) -> None:
        """Report the connection, and queue frames that may be lost before all others."""
        if not self._ready.done():
            self._ready.set_result(None)
            self._link = base.Link(up=True)
            _LOG.info("%s connected to %s", self._client_id, self._reach.url)
            return
        # Unreported if no other process was heard anywhere.
        self._tell(base.Link(up=False))
        self._tell(base.Link(up=True, kept=kept))
        loop = asyncio.get_running_loop()
        again = [OutgoingFrame(*lost, loop.create_future(), again=True) for lost in self._lost(kept)]
        for outgoing in again:
            outgoing.done.add_done_callback(partial(self._sent_again, outgoing))
        others = [one for one in self._unacknowledged if not one.again]
        self._unacknowledged = dict.fromkeys([*again, *others])

    def _sent_again(self, outgoing: OutgoingFrame, done: asyncio.Future[None]) -> None:
        self._unacknowledged.pop(outgoing, None)
        if not done.cancelled():
            done.exception()

    async def _look_around(self, connection: Connection, company: Company) -> None:
        """Find another broker once no process was heard at this one for too long.

        Raises:
            _MovedError: another broker accepts this client.
            RunAbortedError: no process was heard for longer than the patience.
        """

        async def publish(topic: str, payload: bytes) -> None:
            await connection.publish(topic, payload, qos=0)

        while True:
            await company.lonely(len(self._brokers), self._limits, publish)
            if not self._link.up and self._troubled_since is not None:
                alone = RunAbortedError(f"no other process is connected to {self._reach.url}")
                self._reach.check_patience(self._troubled_since, alone)
            self._next = await self._reach.elsewhere()
            if self._next is not None:
                raise _MovedError

    async def _take_in(self, connection: Connection, company: Company, group: asyncio.TaskGroup) -> None:
        async for message in connection.messages:
            frame = _frame_of(message)
            if company.hears(frame, retained=message.retain) and self._meeting is not None:
                group.create_task(connection.publish(self._meeting.own, ANSWERS, qos=0))
            self._met = self._met or company.met.is_set()
            while len(self._inbox) >= self._limits.inbox:
                self._room.clear()
                await self._room.wait()
            self._accept(frame)
            connection.acknowledge(message)

    def _accept(self, frame: base.ArrivedFrame) -> None:
        if self._meeting is not None and frame.payload in WORDS:
            return
        # An earlier run's session may still have other subscriptions.
        if any(base.topic_matches(wanted, frame.topic) for wanted in self._subscriptions):
            self._inbox.append(frame)
            self._arrived.set()

    async def _send_out(self, outbound: Outbound, group: asyncio.TaskGroup) -> None:
        self._unsent = deque(self._unacknowledged)
        while True:
            while self._unsent:
                await outbound.send(self._unsent.popleft(), self._carriers, group)
            self._to_send.clear()
            await self._to_send.wait()
            self._check_open()


def _frame_of(message: aiomqtt.Message) -> base.ArrivedFrame:
    return base.ArrivedFrame(message.topic.value, message.payload)
