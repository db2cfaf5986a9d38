"""asyncio shell: frames in, machine step, effects out. All decisions are the machine's.

Events (frames, deadlines, results of local work) are handled one at a time, in a worker thread: decrypting,
opening sums or signing never delays the connection's keep-alive.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from securefl.base.errors import PeerError, RunAbortedError, SecureflError
from securefl.base.ids import DEALER, SERVER, PartyId, RunId
from securefl.protocol import kernel, messages
from securefl.protocol.round import LoopStoodStill, RunEffect
from securefl.protocol.wire import Delivery, FramePart, Inbox, Outbox, topics
from securefl.runtime import misbehaviour
from securefl.runtime.process import ports, running_clock
from securefl.runtime.process.local_worker import LocalWorker
from securefl.runtime.process.publisher import END_SECONDS, FAREWELL_SECONDS, GONE, Publisher
from securefl.runtime.process.standstill import StandstillWatch, Vigil
from securefl.runtime.transport import ArrivedFrame, Link, Transport, TransportClosedError

PhaseT = TypeVar("PhaseT")

_BACKLOG = 256
"""Frames that may wait for the machine; others stay with the broker."""


@dataclass(frozen=True, slots=True)
class _Stop:
    end: kernel.Aborted


@dataclass(frozen=True, slots=True)
class _Broken:
    """Unexpected failure of a task: a bug, which must surface."""

    error: BaseException


class Shell(Generic[PhaseT]):
    """Runner of one machine until it ends."""

    def __init__(
        self,
        *,
        run: RunId,
        me: PartyId,
        machine: kernel.Machine[PhaseT, kernel.Event[messages.AnyMessage], RunEffect],
        transport: Transport,
        inbox: Inbox,
        outbox: Outbox,
        work: ports.LocalWork,
        witness: ports.Witness,
        journal: ports.DurableJournal | None = None,
        account: ports.DurableAccount | None = None,
        keeper: ports.DurableState | None = None,
        seam: misbehaviour.EffectSeam | None = None,
        farewell: Callable[[str], tuple[RunEffect, ...]] = lambda _reason: (),
        awaited: Callable[[PhaseT], Collection[PartyId]] = lambda _phase: (),
        asked: Callable[[PhaseT], int] = lambda _phase: 0,
        agreed: Callable[[PhaseT], float] = lambda _phase: 0.0,
        pauses: bool = False,
        broker_patience: float = 60.0,
    ) -> None:
        self._pauses = pauses
        self._pausing = False
        self._me = me
        self._machine = machine
        self._transport = transport
        self._inbox = inbox
        self._clock = running_clock.RunningClock(
            running_clock.SERVER_TOLERANCE if me == SERVER else running_clock.PARTY_TOLERANCE
        )
        self._publisher = Publisher(
            run=run,
            me=me,
            outbox=outbox,
            transport=transport,
            witness=witness,
            failed=self._fail_publication,
            remembers=seam is not None,
            clock=self._clock,
        )
        self._desk = LocalWorker(work, self._clock)
        self._watch = StandstillWatch(self._stood_still) if work.holds_up else None
        self._witness = witness
        self._journal = journal
        self._account = account
        self._keeper = keeper
        self._seam = seam
        self._farewell = farewell
        self._awaited = awaited
        self._asked = asked
        self._agreed = agreed
        """Agreed seconds before any process is late."""
        self._end_within = broker_patience + END_SECONDS
        self._vigil = Vigil(self._clock())
        self._overdue = 0
        """Frames, present when a passed deadline was noticed, to handle before it."""
        self._events: asyncio.Queue[ArrivedFrame | kernel.Event[messages.AnyMessage] | _Stop | _Broken] = (
            asyncio.Queue()
        )
        self._room = asyncio.Semaphore(_BACKLOG)
        self._stopping = asyncio.Event()
        self._stopped = 0.0
        self._working: set[asyncio.Task[kernel.Event[messages.AnyMessage] | None]] = set()
        self._wake: float | None = None
        self._connections = 1
        self._online = True
        self._links = 0
        """Connection changes not yet received by the machine."""
        self._unheard: list[tuple[PartyId, bool]] = []
        """Reconnected processes; True if the broker kept the session."""
        self._outcome: kernel.Finished | kernel.Aborted | None = None

    def pause(self, reason: str) -> None:
        """Ask the machine to pause if another process can resume; a second call ends at once."""
        if not self._pauses:
            self.stop(reason)
        elif self._pausing:
            self._stop(kernel.Aborted(reason, resumable=True, over=False))
        else:
            self._pausing = True
            self._events.put_nowait(kernel.PauseAsked(self._clock(), reason))

    @property
    def leaves(self) -> bool:
        """True for a party, which can leave between rounds."""
        return self._me not in {SERVER, DEALER}

    def leave(self, reason: str) -> None:
        """Ask a party's machine to leave before the next round."""
        self._events.put_nowait(kernel.PauseAsked(self._clock(), reason))

    def stop(self, reason: str) -> None:
        """End the machine's run early (from a signal handler)."""
        self._stop(kernel.Aborted(reason))

    def _stop(self, end: kernel.Aborted) -> None:
        if not self._stopping.is_set():
            self._stopped = self._clock()
            self._stopping.set()
        self._events.put_nowait(_Stop(end))

    async def run(self) -> kernel.Finished | kernel.Aborted:
        """Run to the end, notify the others if possible, and return the outcome.

        Raises:
            RunAbortedError: journal, transcript or model cannot be written.
            Exception: a bug, in local work or in the machine.
        """
        self._transport.watch(self._note_link, self._publisher.lost, self._publisher.carriers)
        reader = asyncio.create_task(self._read())
        reader.add_done_callback(self._end_work)
        beating = [asyncio.create_task(self._clock.keep_beating())]
        if self._watch is not None:
            beating.append(asyncio.create_task(self._watch.run()))
        try:
            phase, outcome = await self._to_the_end()
            stopped = self._outcome is None
            if isinstance(outcome, kernel.Aborted) and (stopped or self._me != SERVER):
                await self._leave_early(outcome.reason, FAREWELL_SECONDS)
            await self._see_off(phase, FAREWELL_SECONDS if stopped else self._end_within)
        except Exception as error:
            reason = str(error) if isinstance(error, SecureflError) else "internal error"
            # Without a request to end, the flush may take long.
            await self._leave_early(reason, self._end_within)
            raise
        else:
            return outcome
        finally:
            tasks = (reader, *beating, *self._working)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, self._publisher.cancel(), return_exceptions=True)

    async def _to_the_end(self) -> tuple[PhaseT, kernel.Finished | kernel.Aborted]:
        phase, effects = await asyncio.to_thread(self._machine.start, self._clock())
        await self._perform(effects)
        while self._outcome is None:
            item = await self._next_event(phase)
            if isinstance(item, _Broken):
                raise item.error
            if isinstance(item, _Stop):
                return phase, item.end
            before = phase
            phase, faults = await asyncio.to_thread(self._step, phase, item)
            if phase is not before:
                # An answer of one party must not hide that the server waits for others.
                step = type(phase) if self._me == SERVER else phase
                self._vigil.begin(self._clock(), step, self._agreed(phase))
            await self._perform(faults)
            while self._unheard:
                to, kept = self._unheard.pop()
                await self._unless_stopped(self._publisher.again(to, kept=kept))
        return phase, self._outcome

    async def _see_off(self, phase: PhaseT, within: float) -> None:
        """Flush outgoing messages; keep answering late joiners."""
        leaving = asyncio.create_task(self._publisher.drain(within))
        try:
            while not leaving.done() and self._outcome is not None:
                coming = asyncio.create_task(self._events.get())
                await asyncio.wait({leaving, coming}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    break
                item = coming.result()
                if isinstance(item, _Stop | _Broken):
                    break
                phase, effects = await asyncio.to_thread(self._step, phase, item)
                await self._perform(tuple(effect for effect in effects if isinstance(effect, kernel.Send)))
            await leaving
        finally:
            leaving.cancel()
        await self._publisher.drain()

    async def _leave_early(self, reason: str, within: float) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(within):
                last = tuple(effect for effect in self._farewell(reason) if isinstance(effect, kernel.Send))
                await self._publisher.say_farewell(last)

    async def _read(self) -> None:
        try:
            while True:
                await self._room.acquire()
                self._events.put_nowait(await self._transport.receive())
        except (TransportClosedError, RunAbortedError) as error:
            self._events.put_nowait(_Stop(kernel.Aborted(str(error), over=False)))

    def _note_link(self, link: Link) -> None:
        now = self._clock()
        self._online = link.up
        self._links += 1
        self._publisher.note_link(link)
        if link.up:
            self._connections += 1
            self._events.put_nowait(kernel.Online(now, self._connections, link.kept))
        else:
            self._events.put_nowait(kernel.Offline(now))

    async def _next_event(
        self, phase: PhaseT
    ) -> ArrivedFrame | kernel.Event[messages.AnyMessage] | _Stop | _Broken:
        """Return the next event.

        A passed deadline follows the frames that arrived before it and precedes later ones: a slow process
        loses no input, and a flood delays no deadline. Connection changes come first: deadlines may pause
        with them.
        """
        while self._links or self._wake is None or self._wake > self._clock():
            due = (None if self._links else self._wake, self._inbox.expires, self._vigil.due)
            until = min(when for when in due if when is not None)
            try:
                async with asyncio.timeout(until - self._clock()):
                    item = await self._events.get()
            except TimeoutError:
                # Nothing else sweeps an incomplete message of a silent sender.
                self._inbox.sweep(self._clock())
                self._say_whom_we_wait_for(phase)
                continue
            return self._take_item(item)
        if self._overdue == 0:
            self._overdue = 1 + self._events.qsize()
        self._overdue -= 1
        if self._overdue and not self._events.empty():
            return self._take_item(self._events.get_nowait())
        self._overdue = 0
        return self._deadline_passed()

    def _take_item(
        self, item: ArrivedFrame | kernel.Event[messages.AnyMessage] | _Stop | _Broken
    ) -> ArrivedFrame | kernel.Event[messages.AnyMessage] | _Stop | _Broken:
        if isinstance(item, ArrivedFrame):
            self._room.release()
        elif isinstance(item, kernel.Offline | kernel.Online):
            self._links -= 1
        return item

    def _say_whom_we_wait_for(self, phase: PhaseT) -> None:
        now = self._clock()
        if self._vigil.due <= now:
            whom: Collection[str] = () if self._working else self._awaited(phase)
            asked = self._asked(phase) if self._online else 0
            whom = whom if self._online else ("broker",)
            if whom:
                self._witness.waits(sorted(whom), self._vigil.seconds(now), asked)
            self._vigil.put_off(now)

    def _deadline_passed(self) -> kernel.DeadlinePassed:
        self._wake = None
        return kernel.DeadlinePassed(self._clock())

    def _step(
        self, phase: PhaseT, item: ArrivedFrame | kernel.Event[messages.AnyMessage]
    ) -> tuple[PhaseT, tuple[RunEffect | misbehaviour.Fault, ...]]:
        """Verify and reassemble a frame, then step, in a worker thread."""
        now = self._clock()
        if isinstance(item, ArrivedFrame):
            try:
                event = self._open(item, now)
            except PeerError as error:
                return phase, (kernel.Reject(error.culprit, error.reason),)
            if event is None:
                return phase, ()
        else:
            event = item
        self._note_losses(event)
        idle = False
        try:
            after, effects = self._machine.step(phase, event)
            refused = any(isinstance(effect, kernel.Reject) for effect in effects)
            if refused and isinstance(event, kernel.Received):
                self._inbox.refuse_last()
            idle = after is phase or refused
        finally:
            if isinstance(event, kernel.Received):
                came = Delivery(event.sender, event.place, event.message, event.signed)
                self._witness.record_received(now, came, idle=idle)
        if self._seam is None:
            return after, effects
        return after, self._seam(event, phase, effects)

    def _note_losses(self, event: kernel.Event[messages.AnyMessage]) -> None:
        """Record reconnected processes, which may have lost frames."""
        match event:
            case kernel.Received(sender=sender, message=messages.Here(connection=connection, kept=kept)) if (
                connection > 1
            ):
                self._unheard.append((sender, kept))
            case _:
                pass

    def _open(self, frame: ArrivedFrame, now: float) -> kernel.Event[messages.AnyMessage] | None:
        party = topics.status_party(frame.topic)
        if party == self._me:
            # The server's own status topic matches its subscription.
            return None
        if party is not None and frame.payload == GONE:
            self._witness.record_gone(party)
            return kernel.PresenceHint(now, party)
        by = topics.sender_hint(frame.topic)
        self._witness.traffic(by, "in", len(frame.payload))
        delivery = self._inbox.take(frame.payload, by, now)
        if delivery is None:
            return None
        if isinstance(delivery, FramePart):
            return kernel.Heard(now, delivery.sender)
        return delivery.event(now)

    async def _perform(self, effects: tuple[RunEffect | misbehaviour.Fault, ...]) -> None:
        """Perform effects in order; a failed journal write prevents all later ones."""
        for effect in effects:
            now = self._clock()
            match effect:
                case kernel.Send():
                    await self._unless_stopped(self._publisher.send(effect, now))
                case kernel.WakeAt():
                    self._wake = effect.when
                case kernel.Lead():
                    self._publisher.lead(effect.session)
                case kernel.Journal() | kernel.Enter() | kernel.Keep():
                    await asyncio.to_thread(self._remember, effect)
                case (
                    kernel.Train()
                    | kernel.Choose()
                    | kernel.Evaluate()
                    | kernel.Consult()
                    | kernel.AwaitSent()
                ):
                    self._work_on(self._worked_at(effect))
                case kernel.Reject():
                    self._witness.record_refusal(now, effect.culprit, effect.reason, effect.evidence)
                case kernel.Report():
                    self._witness.report(now, effect.item)
                case kernel.Finished() | kernel.Aborted():
                    self._outcome = effect
                case fault:
                    await self._publisher.commit(fault)

    def _remember(self, effect: kernel.Journal | kernel.Enter | kernel.Keep) -> None:
        if isinstance(effect, kernel.Enter):
            if self._account is not None:
                self._account.enter(effect.entry)
        elif isinstance(effect, kernel.Keep):
            if self._keeper is not None:
                self._keeper.keep(effect.state)
        elif self._journal is not None:
            self._journal.note(effect.round, effect.step)

    async def _unless_stopped(self, sending: Coroutine[Any, Any, None]) -> None:
        """Send; once asked to end, wait only briefly for the broker's acknowledgement."""
        task, stopping = asyncio.ensure_future(sending), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                left = self._stopped + FAREWELL_SECONDS - self._clock()
                await asyncio.wait({task}, timeout=max(0.0, left))
            if task.done():
                task.result()
        finally:
            for one in (task, stopping):
                one.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    def _work_on(self, work: Coroutine[Any, Any, kernel.Event[messages.AnyMessage] | None]) -> None:
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._end_work)

    async def _worked_at(
        self, asked: kernel.Train | kernel.Choose | kernel.Evaluate | kernel.Consult | kernel.AwaitSent
    ) -> kernel.Event[messages.AnyMessage] | None:
        if isinstance(asked, kernel.Train) and self._watch is not None:
            with self._watch.training(asked.round):
                return await self._desk.do(asked)
        if not isinstance(asked, kernel.AwaitSent):
            return await self._desk.do(asked)
        await self._publisher.so_far()
        return kernel.AllSent(self._clock(), asked.round, asked.draw)

    def _stood_still(self, round_: int, seconds: float) -> None:
        self._witness.report(self._clock(), LoopStoodStill(round_, seconds))

    def _fail_publication(self, error: BaseException) -> None:
        lost = isinstance(error, TransportClosedError | RunAbortedError)
        self._events.put_nowait(_Stop(kernel.Aborted(str(error), over=False)) if lost else _Broken(error))

    def _end_work(self, task: asyncio.Task[kernel.Event[messages.AnyMessage] | None]) -> None:
        self._working.discard(task)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self._events.put_nowait(_Broken(error))
        elif (done := task.result()) is not None:
            self._events.put_nowait(done)
