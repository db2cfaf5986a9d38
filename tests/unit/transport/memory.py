"""Topics inside one event loop: what the broker does, without a broker.

Used by tests and by the one-process deployment. Frames are copied to ``bytes`` at the hop, so that nobody can
share a mutable buffer by accident. Not thread-safe: one hub belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from securefl.base.errors import UsageError
from securefl.runtime.transport.base import (
    ArrivedFrame,
    Carriers,
    Link,
    LostFrame,
    TransportClosedError,
    check_filter,
    check_topic,
    topic_matches,
)


class MemoryHub:
    """Connects the parties of one process.

    ``capacity`` is how many frames one subscriber may leave unread; a publisher then waits until there is
    room or the slow subscriber is gone. A party that publishes to itself without reading can block itself.
    """

    def __init__(self, *, capacity: int = 4096) -> None:
        if capacity < 1:
            raise UsageError(f"a hub's capacity is at least 1, not {capacity}")
        self._capacity = capacity
        self._members: dict[str, MemoryTransport] = {}
        self._taps: list[MemoryTransport] = []
        self._retained: dict[str, ArrivedFrame] = {}
        self._waiters: list[asyncio.Future[None]] = []

    def connect(
        self, client_id: str, subscriptions: Iterable[str], last_will: tuple[str, bytes] | None = None
    ) -> MemoryTransport:
        """Join as ``client_id``. As with MQTT, whoever had that id before is cut off."""
        filters = tuple(subscriptions)
        for topic_filter in filters:
            check_filter(topic_filter)
        if client_id in self._members:
            self.kill(client_id)
        member = MemoryTransport(self, client_id, filters, last_will, self._capacity)
        self._members[client_id] = member
        for topic, frame in self._retained.items():
            if any(topic_matches(wanted, topic) for wanted in filters):
                member._deliver(frame)
        return member

    def tap(self) -> MemoryTransport:
        """An observer of every frame. Its queue is unbounded, so that watching changes nobody's timing."""
        tap = MemoryTransport(self, "(tap)", ("#",), None, None)
        self._taps.append(tap)
        return tap

    def kill(self, client_id: str) -> None:
        """End a member as if its process had died: its calls fail and its last will is published.

        Raises:
            UsageError: nobody has that id.
        """
        member = self._members.pop(client_id, None)
        if member is None:
            raise UsageError(f"no member {client_id!r} to kill")
        member._shut()
        if member.last_will is not None:
            topic, payload = member.last_will
            for receiver in self._receivers(topic):
                receiver._deliver(ArrivedFrame(topic, payload))

    async def _change(self) -> None:
        """Wait until somebody reads, receives or leaves."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _receivers(self, topic: str) -> list[MemoryTransport]:
        everybody = [*self._members.values(), *self._taps]
        return [one for one in everybody if any(topic_matches(wanted, topic) for wanted in one.subscriptions)]

    def _leave(self, member: MemoryTransport) -> None:
        if self._members.get(member.client_id) is member:
            del self._members[member.client_id]
        if member in self._taps:
            self._taps.remove(member)


class MemoryTransport:
    """One member's end of a `MemoryHub`."""

    def __init__(
        self,
        hub: MemoryHub,
        client_id: str,
        subscriptions: tuple[str, ...],
        last_will: tuple[str, bytes] | None,
        capacity: int | None,
    ) -> None:
        self.client_id = client_id
        self.subscriptions = subscriptions
        self.last_will = last_will
        self._hub = hub
        self._capacity = capacity
        self._inbox: deque[ArrivedFrame] = deque()
        self._closed = False
        self._in_order = asyncio.Lock()

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Deliver to every subscriber; wait while one of them has no room."""
        check_topic(topic)
        frame = ArrivedFrame(topic, bytes(payload))
        if retain:
            self._hub._retained.pop(topic, None)
            if payload:
                self._hub._retained[topic] = frame
        async with self._in_order:
            self._check_open()
            for receiver in self._hub._receivers(topic):
                while receiver._full:
                    await self._hub._change()
                    self._check_open()
                receiver._deliver(frame)
        # Give the readers a turn, as a round trip to a broker would.
        await asyncio.sleep(0)

    async def receive(self) -> ArrivedFrame:
        """Return the oldest frame that was not read yet."""
        self._check_open()
        while not self._inbox:
            await self._hub._change()
            self._check_open()
        frame = self._inbox.popleft()
        self._hub._wake()
        return frame

    def watch(
        self,
        told: Callable[[Link], None],
        lost: Callable[[bool], Iterable[LostFrame]] = lambda _kept: (),
        carriers: Carriers | None = None,
    ) -> None:
        """Nothing is ever told: what is in memory does not break without its process."""

    async def close(self) -> None:
        """Leave without a last will; unread frames are dropped."""
        self._hub._leave(self)
        self._shut()

    @property
    def _full(self) -> bool:
        return not self._closed and self._capacity is not None and len(self._inbox) >= self._capacity

    def _deliver(self, frame: ArrivedFrame) -> None:
        if not self._closed:
            self._inbox.append(frame)
            self._hub._wake()

    def _shut(self) -> None:
        self._closed = True
        self._inbox.clear()
        self._hub._wake()

    def _check_open(self) -> None:
        if self._closed:
            raise TransportClosedError(f"the in-memory transport of {self.client_id!r} is closed")
