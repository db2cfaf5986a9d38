"""Sending of frames over one connection."""

import asyncio
import math
from dataclasses import dataclass
from typing import Final

from securefl.base.errors import RunAbortedError
from securefl.runtime.transport import base
from securefl.runtime.transport.connecting import Connection
from securefl.runtime.transport.message_limit import MessageLimit

_NO_LIMIT: Final = math.inf


@dataclass(eq=False, slots=True)
class OutgoingFrame:
    """Frame that the broker has not acknowledged."""

    topic: str
    payload: bytes
    retain: bool
    done: asyncio.Future[None]
    again: bool = False
    """True if a broker acknowledged it before it was lost or restarted."""
    carriers: tuple[int, tuple[bytes, ...]] = (0, ())
    """Limit in bytes, and carriers, the same over each connection with this limit: receivers recognise
    copies.
    """


class Outbound:
    """Sender of whole frames, or carriers of larger ones; without ``limit`` all are whole."""

    def __init__(self, url: base.BrokerUrl, connection: Connection, limit: MessageLimit | None) -> None:
        self._url = url
        self._connection = connection
        self._limit = limit
        self._under_way: set[OutgoingFrame] = set()
        self.acknowledged = 0

    @property
    def largest(self) -> int | None:
        """Bytes of the largest frame sent but not acknowledged, if any."""
        return max((len(outgoing.payload) for outgoing in self._under_way), default=None)

    async def send(
        self, outgoing: OutgoingFrame, carriers: base.Carriers | None, group: asyncio.TaskGroup
    ) -> None:
        """Start to send a frame, in ``carriers`` if it is too large; return once the next one may follow.

        Raises:
            ConfigError: the broker refuses a subscription to the probes.
            aiomqtt.MqttError: the connection, or one for probes, was lost.
        """
        if outgoing.done.done():
            return
        size, room = len(outgoing.payload), _NO_LIMIT
        if self._limit is not None:
            room = await self._limit.room_for(outgoing.topic, size)
        retain = outgoing.retain and (self._limit is None or await self._limit.retains())
        self._under_way.add(outgoing)
        if size <= room:
            group.create_task(self._send_whole(outgoing, retain=retain))
        elif carriers is None:
            self._under_way.discard(outgoing)
            reason = (
                f"{self._url} accepts messages of at most {room:,} bytes, and one has {size:,}: raise its "
                "limit"
            )
            outgoing.done.set_exception(RunAbortedError(reason))
        else:
            # Frames keep their order, and few carriers exist at a time.
            await self._send_carried(outgoing, carriers, int(room))

    async def _send_whole(self, outgoing: OutgoingFrame, *, retain: bool) -> None:
        if outgoing.done.done():
            self._under_way.discard(outgoing)
            return
        await self._connection.publish(
            outgoing.topic, outgoing.payload, qos=1, retain=retain, timeout=math.inf
        )
        self._end_send(outgoing)

    async def _send_carried(self, outgoing: OutgoingFrame, carriers: base.Carriers, room: int) -> None:
        if outgoing.carriers[0] != room:
            outgoing.carriers = room, tuple(carriers(outgoing.payload, room))
        async with asyncio.TaskGroup() as group:
            for carrier in outgoing.carriers[1]:
                group.create_task(self._connection.publish(outgoing.topic, carrier, qos=1, timeout=math.inf))
        outgoing.carriers = 0, ()
        self._end_send(outgoing)

    def _end_send(self, outgoing: OutgoingFrame) -> None:
        self.acknowledged += 1
        self._under_way.discard(outgoing)
        if not outgoing.done.done():
            outgoing.done.set_result(None)
