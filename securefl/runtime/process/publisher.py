"""Publisher: signs frames and publishes them in order within a bounded window; performs faults."""

import asyncio
import contextlib
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Set
from typing import NamedTuple

from securefl.base.errors import RunAbortedError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol import kernel, messages
from securefl.protocol.wire import Outbox, topics
from securefl.runtime import misbehaviour
from securefl.runtime.process.ports import Witness
from securefl.runtime.transport import Link, LostFrame, Transport

GONE = b"gone"
"""Payload of a last will; presence is announced in signed messages."""

FAREWELL_SECONDS = 10.0
"""Time for the last messages after the machine's end."""

END_SECONDS = 15.0
"""Time for the end to reach the broker, besides reconnecting."""

KEPT = 128 * 2**20
"""Maximum bytes of frames kept for resending; the oldest are dropped."""
CHEAP = 8 * 2**20
"""Maximum bytes that are resent in a session kept by the broker."""
REPEATS = 8
"""Maximum resends of a round's frames to one process."""
BEYOND = (6.0, 6.0)
"""Seconds before resends of a round after a broker lost it: a bridge reconnects every 5."""
STALLED_SECONDS = 300.0
"""Seconds without acknowledgement before a connected broker is given up."""
_WINDOW = 32
_RESENDABLE = 16


class _Kept(NamedTuple):
    round: int
    to: PartyId
    topic: str
    frame: bytes
    retain: bool


class Publisher:
    """Sender of one process.

    ``failed`` receives a failed publication's error. ``remembers`` keeps the last frames for ``ResendLast``.
    """

    def __init__(
        self,
        *,
        run: RunId,
        me: PartyId,
        outbox: Outbox,
        transport: Transport,
        witness: Witness,
        failed: Callable[[BaseException], None],
        remembers: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._run = run
        self._me = me
        self._outbox = outbox
        self._transport = transport
        self._witness = witness
        self._failed = failed
        self._remembers = remembers
        self._window = asyncio.Semaphore(_WINDOW)
        self._publishing: set[asyncio.Task[None]] = set()
        self._taken = 0
        self._up = True
        self._links = 0
        self._recent: list[tuple[str, bytes]] = []
        self._here: kernel.Send[messages.AnyMessage] | None = None
        self._kept: deque[_Kept] = deque()
        self._kept_bytes = 0
        self._round = -1
        self._repeated: Counter[PartyId] = Counter()
        self._back: set[PartyId] = set()
        """Processes that reported a reconnect since this process's."""
        self._repeating: asyncio.Task[None] | None = None

    def note_link(self, link: Link) -> None:
        """Record a broken or restored connection; an absent broker is not stalled."""
        self._up = link.up
        self._links += 1
        if self._repeating is not None:
            self._repeating.cancel()
            self._repeating = None
        if link.up and not link.kept:
            self._back.clear()
            self._repeating = asyncio.create_task(self._repeat())
            self._repeating.add_done_callback(self._note)

    async def send(self, send: kernel.Send[messages.AnyMessage], now: float) -> None:
        """Sign a message in a worker thread and start publishing it."""
        frames = await asyncio.to_thread(lambda: list(self._outbox.frames(send.to, send.place, send.message)))
        self._witness.record_sent(now, send)
        topic = self._topic(send)
        if isinstance(send.message, messages.Here):
            self._here = send
        for frame in frames:
            self._witness.traffic(send.to, "out", len(frame))
            retain = _ends_the_run(send)
            await self._publish(topic, frame, retain=retain)
            self._keep(_Kept(send.place.round, send.to, topic, frame, retain))
        if self._remembers:
            self._recent = [*self._recent, *((topic, frame) for frame in frames)][-_RESENDABLE:]

    def lead(self, session: bytes) -> None:
        """Sign later frames in a server's session; drop earlier frames."""
        self._outbox.lead(session)
        self._kept.clear()
        self._kept_bytes = 0

    async def say_farewell(self, effects: tuple[kernel.Send[messages.AnyMessage], ...]) -> None:
        """Send and flush the last messages of a process that ends before the run."""
        for effect in effects:
            # The disk may be full.
            with contextlib.suppress(Exception):
                self._witness.record_sent(self._clock(), effect)
            for frame in self._outbox.frames(effect.to, effect.place, effect.message):
                await self._publish(self._topic(effect), frame, retain=_ends_the_run(effect))
        if self._me != SERVER:
            await self._publish(topics.status(self._run, self._me), GONE)
        await self.drain()

    async def commit(self, fault: misbehaviour.Fault) -> None:
        """Perform a fault (:mod:`securefl.runtime.misbehaviour.seam`)."""
        match fault:
            case misbehaviour.SendRaw():
                await self._publish(self._ordinary(fault.to), fault.payload)
            case misbehaviour.ResendLast():
                for topic, frame in self._recent[-fault.count :]:
                    await self._publish(topic, frame)
            case misbehaviour.Presence(present=True):
                if self._here is not None:
                    await self.send(self._here, self._clock())
            case misbehaviour.Presence():
                await self._publish(topics.status(self._run, self._me), GONE)
            case misbehaviour.Crash():
                await self.drain()
                os.kill(os.getpid(), signal.SIGKILL)

    def lost(self, kept: bool) -> Iterator[LostFrame]:
        """Yield this round's frames that a broker acknowledged and may have lost.

        Small amounts are resent even in a kept session, since amqtt forgets unacknowledged frames.
        """
        if kept and self._kept_bytes > CHEAP:
            return
        for one in tuple(self._kept):
            self._witness.traffic(one.to, "out", len(one.frame))
            yield LostFrame(one.topic, one.frame, one.retain)

    def carriers(self, frame: bytes, limit: int) -> Iterator[bytes]:
        """Return the carriers of a frame that is larger than the broker accepts."""
        return self._outbox.carriers(frame, limit)

    async def again(self, to: PartyId, *, kept: bool) -> None:
        """Resend this round's frames to ``to``, which reports a reconnect in a new or ``kept`` session.

        At most :data:`REPEATS` times a round: a short message triggers a whole model.
        """
        self._back.add(to)
        self._repeated[to] += 1
        if self._repeated[to] > REPEATS:
            return
        lost = tuple(one for one in self._kept if one.to in {to, EVERYONE})
        if kept and sum(len(one.frame) for one in lost) > CHEAP:
            return
        for one in lost:
            self._witness.traffic(to, "out", len(one.frame))
            await self._publish(self._ordinary(to), one.frame)

    async def _repeat(self) -> None:
        """Resend small frames to processes that may be beyond a bridge (ADR 0032)."""
        for pause in BEYOND:
            await asyncio.sleep(pause)
            size = Counter[PartyId]()
            for one in self._kept:
                size[one.to] += len(one.frame)
            for one in tuple(self._kept):
                if one.to not in self._back and size[one.to] <= CHEAP:
                    self._witness.traffic(one.to, "out", len(one.frame))
                    await self._publish(one.topic, one.frame, retain=one.retain)

    def _keep(self, one: _Kept) -> None:
        if one.round > self._round:
            self._round = one.round
            self._repeated.clear()
        while self._kept and (self._kept[0].round < one.round or self._kept_bytes > KEPT):
            self._kept_bytes -= len(self._kept.popleft().frame)
        self._kept.append(one)
        self._kept_bytes += len(one.frame)

    async def so_far(self) -> None:
        """Wait until the broker has acknowledged all frames so far; failures are reported elsewhere.

        Raises:
            RunAbortedError: the broker acknowledges nothing any more.
        """
        waiting: Set[asyncio.Task[None]] = set(self._publishing)
        while waiting:
            before, links = self._taken, self._links
            _, waiting = await asyncio.wait(waiting, timeout=STALLED_SECONDS)
            if waiting and self._taken == before and self._stood_since(links):
                raise _stall_error()

    async def drain(self, within: float = FAREWELL_SECONDS) -> None:
        """Wait for pending publications, ``within`` seconds at most."""
        if self._publishing:
            await asyncio.wait(self._publishing, timeout=within)

    async def cancel(self) -> None:
        """Cancel pending publications."""
        giving_up = {*self._publishing, *(() if self._repeating is None else (self._repeating,))}
        for task in giving_up:
            task.cancel()
        await asyncio.gather(*giving_up, return_exceptions=True)

    def _topic(self, send: kernel.Send[messages.AnyMessage]) -> str:
        own = topics.status(self._run, self._me)
        return own if isinstance(send.message, messages.Here) else self._ordinary(send.to)

    def _ordinary(self, to: PartyId) -> str:
        return topics.down(self._run, to) if self._me == SERVER else topics.up(self._run, self._me)

    async def _publish(self, topic: str, frame: bytes, *, retain: bool = False) -> None:
        """Start publishing in order, once the window has room."""
        while True:
            links = self._links
            try:
                async with asyncio.timeout(STALLED_SECONDS):
                    await self._window.acquire()
                break
            except TimeoutError:
                if self._stood_since(links):
                    raise _stall_error() from None
        task = asyncio.create_task(self._transport.publish(topic, frame, retain=retain))
        self._publishing.add(task)
        task.add_done_callback(self._end_publication)

    def _stood_since(self, links: int) -> bool:
        return self._up and self._links == links

    def _end_publication(self, task: asyncio.Task[None]) -> None:
        self._window.release()
        self._taken += 1
        self._publishing.discard(task)
        self._note(task)

    def _note(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)


def _stall_error() -> RunAbortedError:
    return RunAbortedError(
        f"the run ended here: the broker acknowledged no message for {STALLED_SECONDS:g} s"
    )


def _ends_the_run(send: kernel.Send[messages.AnyMessage]) -> bool:
    """Return True if the broker must retain the message for late joiners."""
    return send.to == EVERYONE and isinstance(send.message, messages.Goodbye)
