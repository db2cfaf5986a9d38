"""The conductor of a chaos run: it starts everybody, lets faults strike when due, and ends in time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import queue
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, assert_never

from securefl.base.errors import EXIT_ABORTED, EXIT_DECIDE, EXIT_REFUSED
from tests.chaos.faults import (
    BROKER,
    SERVER,
    ClockJump,
    DoubleStart,
    Fault,
    FullDisk,
    HalfOpen,
    Kill,
    Partition,
    Reset,
    Slow,
    Stall,
    Terminate,
)
from tests.chaos.federation import Federation, Started, federation
from tests.chaos.links import Link
from tests.chaos.packets import Seen
from tests.chaos.setups import Setup

LIMIT: Final = 240.0
"""Seconds that a run may take; what still runs then is hanging."""
AFTERWARDS: Final = 45.0
"""Seconds that others may take once the server has ended, and the faults are over."""
_HELD: Final = 30.0
"""Seconds after which a frame goes on whose fault has not struck."""
_AGAIN: Final = 1.0
"""Seconds after which a service manager starts again what has not reached the broker."""
_TICK: Final = 0.05
_PAUSED: Final = 4
"""Exit code of a server that was asked to end: another one goes on."""
_OVER: Final = frozenset({0, 1})
"""Exit codes of whoever has seen the end of the run; 1 is a server's whose last rounds made no model."""
UNREACHED: Final = ("cannot reach the broker", "does not answer", "closed the connection before answering")
"""What a process says that did not get to the broker when it started: its first attempt is the only one."""


@dataclass
class Witnessed:
    """What was seen of a run."""

    setup: Setup
    faults: tuple[Fault, ...]
    folder: Path
    struck: dict[int, float] = field(default_factory=dict)
    """When a fault struck, by its place in the list; of those that never came, nothing."""
    started: list[Started] = field(default_factory=list)
    frames: list[Seen] = field(default_factory=list)
    """All that anybody sent, in the order in which relays saw it, what was sent again included."""
    hanging: list[Started] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    seconds: float = 0.0


def conduct(folder: Path, setup: Setup, faults: Sequence[Fault]) -> Witnessed:
    """Run a federation in a new folder, with these faults. Its broker dies with this thread."""
    witnessed = Witnessed(setup, tuple(faults), folder)
    conductor = _Conductor(witnessed)
    began = time.monotonic()
    with federation(folder, setup, conductor.watch) as made:
        conductor.lead(made)
        witnessed.hanging, witnessed.orphans = made.end()
        witnessed.started = made.started
    witnessed.seconds = time.monotonic() - began
    return witnessed


class _Conductor:
    def __init__(self, witnessed: Witnessed) -> None:
        self._seen = witnessed
        self._armed = dict(enumerate(witnessed.faults))
        self._lock = threading.Lock()
        self._strikes: queue.SimpleQueue[tuple[int, Future[None] | None]] = queue.SimpleQueue()
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._revive: dict[Started, tuple[float, bool]] = {}
        """Who is started again once it has ended: after how long, and whether twice."""
        self._stalled: set[int] = set()
        self._ahead: dict[str, float] = {}
        self._made: Federation

    def watch(self, seen: Seen) -> Awaitable[None] | None:
        """Note a frame, and arm what waits for it. In the links' thread."""
        self._seen.frames.append(seen)
        held: list[Future[None]] = []
        with self._lock:
            due = [n for n, fault in self._armed.items() if _is_sight(fault, seen)]
            for number in due:
                fault = self._armed.pop(number)
                waits: Future[None] | None = Future() if fault.when.before else None
                if waits is not None:
                    held.append(waits)
                self._strikes.put((number, waits))
        return _all_of(held) if held else None

    def lead(self, made: Federation) -> None:
        """From the first start to the last end."""
        self._made = made
        for name in made.setup.field.processes:
            made.start(name)
        deadline, ended = time.monotonic() + LIMIT, False
        while time.monotonic() < deadline and not self._over():
            self._take_strike()
            while self._later and self._later[0][0] <= time.monotonic():
                heapq.heappop(self._later)[2]()
            self._look_after()
            if not ended and made.running(SERVER) is None and not self._coming_back(SERVER):
                ended = True
                deadline = min(deadline, time.monotonic() + AFTERWARDS)

    def _over(self) -> bool:
        return not (self._later or self._revive) and all(
            one.exit_code is not None for one in self._made.started
        )

    def _coming_back(self, name: str) -> bool:
        # What is to be done later may be its start.
        return bool(self._later) or any(one.name == name for one in self._revive)

    def _take_strike(self) -> None:
        try:
            number, waits = self._strikes.get(timeout=self._until())
        except queue.Empty:
            return
        fault = self._seen.faults[number]

        def strike() -> None:
            try:
                if self._strike(fault):
                    self._seen.struck[number] = time.monotonic()
            finally:
                if waits is not None:
                    waits.set_result(None)

        self._at(fault.when.delay, strike)

    def _until(self) -> float:
        if not self._later:
            return _TICK
        return min(_TICK, max(0.001, self._later[0][0] - time.monotonic()))

    def _at(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._count), act))

    def _look_after(self) -> None:
        """Start again what is to be, as a service manager or its owner does."""
        for one, (seconds, twice) in list(self._revive.items()):
            if one.exit_code is not None:
                del self._revive[one]
                if one.exit_code not in _OVER:
                    self._at(seconds, partial(self._start, one.name, twice=twice))
        for one in self._made.started:
            if one.exit_code == EXIT_ABORTED and "unreached" not in one.why and _unreached(one):
                one.why.append("unreached")
                one.may_end.add(3)
                if self._made.running(one.name) is None and one.out == self._made.home(one.name) / "out":
                    self._at(_AGAIN, partial(self._start, one.name))

    def _start(self, name: str, *, twice: bool = False) -> None:
        if self._made.running(name) is not None:
            return
        first = self._made.start(name)
        if twice:
            second = self._made.start(name)
            for one in (first, second):
                one.why.append("twin")
                one.may_end.add(2)

    def _strike(self, fault: Fault) -> bool:
        """Do it; False where there is nobody to do it to."""
        match fault:
            case Kill() | Terminate():
                return self._end_broker(fault) if fault.who == BROKER else self._end(fault)
            case Stall():
                return self._stall(fault)
            case FullDisk():
                return self._fill(fault)
            case DoubleStart():
                return self._double(fault)
            case ClockJump():
                self._ahead[fault.who] = self._ahead.get(fault.who, 0.0) + fault.seconds
                self._made.set_clock(fault.who, self._ahead[fault.who])
                return True
            case Reset() | HalfOpen() | Slow() | Partition():
                self._harm_links(fault)
                return True
            case _:
                assert_never(fault)

    def _harm_links(self, fault: Reset | HalfOpen | Slow | Partition) -> None:
        links = self._made.links
        match fault:
            case Reset():
                links.tell(Link.reset, *fault.who)
            case HalfOpen():
                links.tell(lambda link: link.swallow(fault.way), fault.who)
            case Slow():
                self._slow(fault.who, fault.rate, fault.late)
                self._at(fault.seconds, lambda: self._slow(fault.who, 0.0, 0.0))
            case Partition():
                links.tell(lambda link: link.passes.clear(), *fault.who)
                self._at(fault.seconds, lambda: links.tell(lambda link: link.passes.set(), *fault.who))

    def _end_broker(self, fault: Kill | Terminate) -> bool:
        if not self._made.broker.running:
            return False
        self._made.stop_broker(kill=isinstance(fault, Kill))
        self._at(fault.back or 0.0, self._made.start_broker)
        return True

    def _end(self, fault: Kill | Terminate) -> bool:
        kills = isinstance(fault, Kill)
        one = self._made.signal(fault.who, signal.SIGKILL if kills else signal.SIGTERM)
        if one is None:
            return False
        one.why.append(type(fault).__name__.lower())
        one.may_end |= {-signal.SIGKILL} if kills else {_PAUSED if fault.who == SERVER else 3}
        if kills:
            one.process.join()
            if fault.when.before:
                # What it had handed to the kernel has not left either.
                self._made.links.tell(Link.reset, fault.who)
        if fault.back is not None:
            self._revive[one] = fault.back, isinstance(fault, Kill) and fault.twice
        return True

    def _stall(self, fault: Stall) -> bool:
        if fault.who == BROKER:
            self._made.stall_broker(signal.SIGSTOP)
            self._at(fault.seconds, lambda: self._made.stall_broker(signal.SIGCONT))
            return True
        one = self._made.signal(fault.who, signal.SIGSTOP)
        if one is None:
            return False

        def go_on() -> None:
            if one.exit_code is None:
                one.process.join(0)
                self._made.signal(fault.who, signal.SIGCONT)

        self._at(fault.seconds, go_on)
        return True

    def _slow(self, who: str, rate: float, late: float) -> None:
        def change(link: Link) -> None:
            link.rate, link.late = rate, late

        self._made.links.tell(change, who)

    def _fill(self, fault: FullDisk) -> bool:
        one = self._made.running(fault.who)
        if one is None:
            return False
        one.why.append("full disk")
        one.may_end.add(3)
        self._made.fill_disk(one)

        def free() -> None:
            self._made.free_disk(one)
            self._revive.setdefault(one, (0.2, False))

        self._at(fault.seconds, free)
        return True

    def _double(self, fault: DoubleStart) -> bool:
        first = self._made.running(fault.who)
        if first is None:
            return False
        home = self._made.copy(fault.who) if fault.copied else None
        second = self._made.start(fault.who, home)
        second.why.append("double")
        # A copy is refused for its name, or for its account: the original has written on since.
        second.may_end = {EXIT_REFUSED, EXIT_DECIDE} if fault.copied else {EXIT_REFUSED}
        if fault.who == SERVER and fault.copied:
            # Where the first one cannot answer, the second leads, and parties follow it and no other.
            second.why.append("rival")
            first.why.append("rival")
        return True


def _unreached(one: Started) -> bool:
    lines = one.words.splitlines()
    return bool(lines) and any(words in lines[-1] for words in UNREACHED)


def _is_sight(fault: Fault, seen: Seen) -> bool:
    when = fault.when
    return seen.by == when.by and seen.kind.removeprefix("Stating") == when.kind and seen.round >= when.round


async def _all_of(held: Sequence[Future[None]]) -> None:
    await asyncio.wait([asyncio.wrap_future(one) for one in held], timeout=_HELD)
