"""The asyncio shell: frames in, machine step, effects out. All decisions are the machine's.

One task reads the transport, one consumes events (frames, deadlines, results of local work) strictly one at a
time, and publishing runs behind a bounded window in order. Steps run in a worker thread, so that decrypting,
opening sums or signing never starves the connection's keep-alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from securefl.arrays import F32
from securefl.behaviours.faults import Crash, Fault, Presence, ResendLast, SendRaw
from securefl.behaviours.seam import EffectSeam
from securefl.errors import PeerError, RunAbortedError, SecureflError, UsageError
from securefl.ids import SERVER, PartyId, RunId
from securefl.kernel.effects import (
    Aborted,
    Evaluate,
    Finished,
    Journal,
    Reject,
    Report,
    Send,
    Train,
    WakeAt,
)
from securefl.kernel.events import DeadlinePassed, Evaluated, PresenceHint, Received, Trained
from securefl.kernel.machine import Effect, Event, Machine
from securefl.messages.union import AnyMessage
from securefl.transport.base import Delivery as Frame
from securefl.transport.base import Transport, TransportClosedError
from securefl.wire import topics
from securefl.wire.inbox import Delivery, Inbox
from securefl.wire.outbox import Outbox

PhaseT = TypeVar("PhaseT")

GONE, HERE = b"gone", b"here"
"""Payloads of presence hints; the broker publishes ``GONE`` as last will."""

FAREWELL_SECONDS = 10.0
"""How long the last messages may take to leave after the machine has ended."""

_WINDOW = 32
_RESENDABLE = 16
_BACKLOG = 256
"""Frames that may wait for the machine; beyond it they stay with the transport, and so with the broker."""


class Witness(Protocol):
    """Who is told what this process saw and did: transcript, metrics, progress."""

    def report(self, now: float, item: object) -> None:
        """Take a fact that the machine reports."""
        ...

    def refused(self, now: float, culprit: str, reason: str) -> None:
        """Take a refusal."""
        ...

    def received(self, now: float, delivery: Delivery) -> None:
        """Take a whole, verified message that came in."""
        ...

    def sent(self, now: float, send: Send[AnyMessage]) -> None:
        """Take a message that is going out."""
        ...

    def traffic(self, peer: str, direction: Literal["in", "out"], size: int) -> None:
        """Take the size in bytes of one frame; ``peer`` is who sent it (by topic) or will get it."""
        ...


class DurableJournal(Protocol):
    """What ``Journal`` effects are written to."""

    def note(self, round_: int, step: str) -> None:
        """Write durably."""
        ...


@dataclass(frozen=True, slots=True)
class LocalWork:
    """What this process can do besides talking, in a worker thread.

    A ``SecureflError`` in training makes the party sit the round out; anything else, and ``UsageError``, is a
    bug and ends the process.
    """

    train: Callable[[int, F32], F32] | None = None
    """(round, parameters) to trained parameters."""
    evaluate: Callable[[F32], tuple[float, float]] | None = None
    """Parameters to (accuracy, loss)."""


@dataclass(frozen=True, slots=True)
class _Stop:
    reason: str


@dataclass(frozen=True, slots=True)
class _Broken:
    """A task of this shell failed in a way nobody foresaw: a bug, which must surface."""

    error: BaseException


class Shell(Generic[PhaseT]):
    """Runs one machine until it ends."""

    def __init__(
        self,
        *,
        run: RunId,
        me: PartyId,
        machine: Machine[PhaseT, Event[AnyMessage], Effect[AnyMessage]],
        transport: Transport,
        inbox: Inbox,
        outbox: Outbox,
        work: LocalWork,
        witness: Witness,
        journal: DurableJournal | None = None,
        seam: EffectSeam | None = None,
        farewell: Callable[[str], tuple[Effect[AnyMessage], ...]] = lambda _reason: (),
    ) -> None:
        self._run = run
        self._me = me
        self._machine = machine
        self._transport = transport
        self._inbox = inbox
        self._outbox = outbox
        self._work = work
        self._witness = witness
        self._journal = journal
        self._seam = seam
        self._farewell = farewell
        self._events: asyncio.Queue[Frame | Event[AnyMessage] | _Stop | _Broken] = asyncio.Queue()
        self._window = asyncio.Semaphore(_WINDOW)
        self._room = asyncio.Semaphore(_BACKLOG)
        self._publishing: set[asyncio.Task[None]] = set()
        self._working: set[asyncio.Task[None]] = set()
        self._wake: float | None = None
        self._outcome: Finished | Aborted | None = None
        self._recent: list[tuple[str, bytes]] = []

    def stop(self, reason: str) -> None:
        """Ask the machine's run to end early (from a signal handler)."""
        self._events.put_nowait(_Stop(reason))

    async def run(self) -> Finished | Aborted:
        """Run to the end and return how it ended. Whatever the end, the others are told if it can be done.

        Raises:
            RunAbortedError: journal, transcript or model cannot be written.
            Exception: a bug, in local work or in the machine.
        """
        reader = asyncio.create_task(self._read())
        reader.add_done_callback(self._worked)
        try:
            outcome = await self._to_the_end()
            stopped = self._outcome is None
            if isinstance(outcome, Aborted) and (stopped or self._me != SERVER):
                await self._leave_early(outcome.reason)
            await self._drain()
        except Exception as error:
            reason = str(error) if isinstance(error, SecureflError) else "internal error"
            await self._leave_early(reason)
            raise
        else:
            return outcome
        finally:
            for task in (reader, *self._working, *self._publishing):
                task.cancel()
            await asyncio.gather(reader, *self._working, *self._publishing, return_exceptions=True)

    async def _to_the_end(self) -> Finished | Aborted:
        phase, effects = await asyncio.to_thread(self._machine.start, time.monotonic())
        await self._perform(effects)
        while self._outcome is None:
            item = await self._next_event()
            if isinstance(item, _Broken):
                raise item.error
            if isinstance(item, _Stop):
                return Aborted(item.reason)
            phase, faults = await asyncio.to_thread(self._step, phase, item)
            await self._perform(faults)
        return self._outcome

    async def _leave_early(self, reason: str) -> None:
        """Tell the others that this process ends before the run does. Nothing that fails here matters."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(FAREWELL_SECONDS):
                for effect in self._farewell(reason):
                    if isinstance(effect, Send):
                        # The witness's disk may be what failed.
                        with contextlib.suppress(Exception):
                            self._witness.sent(time.monotonic(), effect)
                        for frame in self._outbox.frames(effect.to, effect.place, effect.message):
                            await self._publish(self._topic(effect.to), frame)
                if self._me != SERVER:
                    await self._publish(topics.status(self._run, self._me), GONE)
                await self._drain()

    async def _read(self) -> None:
        try:
            while True:
                await self._room.acquire()
                self._events.put_nowait(await self._transport.receive())
        except (TransportClosedError, RunAbortedError) as error:
            self._events.put_nowait(_Stop(str(error)))

    async def _next_event(self) -> Frame | Event[AnyMessage] | _Stop | _Broken:
        """The next event; a deadline that has passed comes first, or a flood of frames would put it off."""
        if self._wake is not None and self._wake <= time.monotonic():
            return self._deadline_passed()
        try:
            async with asyncio.timeout(None if self._wake is None else self._wake - time.monotonic()):
                item = await self._events.get()
        except TimeoutError:
            return self._deadline_passed()
        if isinstance(item, Frame):
            self._room.release()
        return item

    def _deadline_passed(self) -> DeadlinePassed:
        self._wake = None
        return DeadlinePassed(time.monotonic())

    def _step(
        self, phase: PhaseT, item: Frame | Event[AnyMessage]
    ) -> tuple[PhaseT, tuple[Effect[AnyMessage] | Fault, ...]]:
        """Verify and reassemble if it is a frame, then step. Runs in a worker thread."""
        now = time.monotonic()
        if isinstance(item, Frame):
            try:
                event = self._open(item, now)
            except PeerError as error:
                return phase, (Reject(error.culprit, error.reason),)
            if event is None:
                return phase, ()
        else:
            event = item
        after, effects = self._machine.step(phase, event)
        if self._seam is None:
            return after, effects
        return after, self._seam(event, phase, effects)

    def _open(self, frame: Frame, now: float) -> Event[AnyMessage] | None:
        party = topics.status_party(frame.topic)
        if party is not None:
            return PresenceHint(now, party, present=frame.payload != GONE)
        by = topics.sender_hint(frame.topic)
        self._witness.traffic(by, "in", len(frame.payload))
        delivery = self._inbox.accept(frame.payload, by, now)
        if delivery is None:
            return None
        self._witness.received(now, delivery)
        return Received(now, delivery.sender, delivery.place, delivery.message, delivery.signed)

    async def _perform(self, effects: tuple[Effect[AnyMessage] | Fault, ...]) -> None:
        """Perform effects in order. A journal that cannot be written ends everything before what follows."""
        for effect in effects:
            now = time.monotonic()
            match effect:
                case Send():
                    await self._send(effect, now)
                case WakeAt():
                    self._wake = effect.when
                case Journal():
                    if self._journal is not None:
                        await asyncio.to_thread(self._journal.note, effect.round, effect.step)
                case Train() | Evaluate():
                    self._in_background(
                        self._train(effect) if isinstance(effect, Train) else self._evaluate(effect)
                    )
                case Reject():
                    self._witness.refused(now, effect.culprit, effect.reason)
                case Report():
                    self._witness.report(now, effect.item)
                case Finished() | Aborted():
                    self._outcome = effect
                case fault:
                    await self._commit(fault)

    async def _commit(self, fault: Fault) -> None:
        """Do what an honest process never does (securefl.behaviours.faults)."""
        match fault:
            case SendRaw():
                await self._publish(self._topic(fault.to), fault.payload)
            case ResendLast():
                for topic, frame in self._recent[-fault.count :]:
                    await self._publish(topic, frame)
            case Presence():
                await self._publish(topics.status(self._run, self._me), HERE if fault.present else GONE)
            case Crash():
                await self._drain()
                os.kill(os.getpid(), signal.SIGKILL)

    async def _send(self, send: Send[AnyMessage], now: float) -> None:
        frames = await asyncio.to_thread(lambda: list(self._outbox.frames(send.to, send.place, send.message)))
        self._witness.sent(now, send)
        topic = self._topic(send.to)
        for frame in frames:
            self._witness.traffic(send.to, "out", len(frame))
            await self._publish(topic, frame)
        if self._seam is not None:
            self._recent = [*self._recent, *((topic, frame) for frame in frames)][-_RESENDABLE:]

    def _topic(self, to: PartyId) -> str:
        return topics.down(self._run, to) if self._me == SERVER else topics.up(self._run, self._me)

    async def _publish(self, topic: str, frame: bytes) -> None:
        """Start publishing in order; wait only while too much is under way."""
        await self._window.acquire()
        task = asyncio.create_task(self._transport.publish(topic, frame))
        self._publishing.add(task)
        task.add_done_callback(self._published)

    def _published(self, task: asyncio.Task[None]) -> None:
        self._window.release()
        self._publishing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            lost = isinstance(error, TransportClosedError | RunAbortedError)
            self._events.put_nowait(_Stop(str(error)) if lost else _Broken(error))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._events.put_nowait(_Broken(error))

    async def _train(self, effect: Train) -> None:
        if self._work.train is None:
            raise UsageError("this process does not train")
        try:
            params = await asyncio.to_thread(self._work.train, effect.round, effect.params)
        except UsageError:
            raise
        except SecureflError as error:
            self._events.put_nowait(Trained(time.monotonic(), effect.round, None, str(error)))
        else:
            self._events.put_nowait(Trained(time.monotonic(), effect.round, params))

    async def _evaluate(self, effect: Evaluate) -> None:
        if self._work.evaluate is None:
            raise UsageError("this process does not evaluate")
        accuracy, loss = await asyncio.to_thread(self._work.evaluate, effect.params)
        self._events.put_nowait(Evaluated(time.monotonic(), effect.round, accuracy, loss))

    async def _drain(self) -> None:
        """Let the last messages leave."""
        if self._publishing:
            await asyncio.wait(self._publishing, timeout=FAREWELL_SECONDS)
