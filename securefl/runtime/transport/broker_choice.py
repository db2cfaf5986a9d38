"""Choice among several brokers: a process stays at one where it hears other processes (ADR 0055).

Otherwise it asks, unsigned, on its own status topic, and moves on without an answer. A party looks for the
server, the server for any process. A broker can isolate a process by forged answers, as by dropping frames.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.wire import topics
from securefl.runtime.transport import base
from securefl.runtime.transport.acl import OBSERVER

ASKS: Final = b"anybody?"
ANSWERS: Final = b"somebody"
WORDS: Final = frozenset({ASKS, ANSWERS})

_ANSWER_EVERY: Final = 1.0
_SERVER_STAYS: Final = 10.0
"""Seconds per broker, plus one such period: a party needs at most that for one broker."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Processes that a process looks for."""

    own: str
    others: tuple[str, ...]
    """Filters of the others' topics."""
    ignored: frozenset[str] = frozenset()
    """Topics that do not count, though the filters cover them."""
    waits: bool = True
    """True if this process can do nothing without the others."""
    answers: bool = True

    def heard_in(self, topic: str) -> bool:
        """Return True if a topic belongs to a process that counts."""
        return topic not in self.ignored and any(base.topic_matches(wanted, topic) for wanted in self.others)

    def patience(self, brokers: int, limits: base.MqttLimits) -> tuple[float, float]:
        """Return the seconds of silence before moving on: before and after another process was heard."""
        if self.waits:
            return limits.found_within, limits.alone
        return _SERVER_STAYS * (brokers + 1), _SERVER_STAYS * (brokers + 1)


def meeting_of(run: RunId, name: PartyId) -> Meeting:
    """Return the processes that ``name`` looks for: the server; for the server, any process."""
    status = topics.status(run, SERVER)
    observer = f"{status.removesuffix(SERVER)}{OBSERVER}"
    if name == OBSERVER:
        return Meeting(observer, (topics.down(run, EVERYONE), status), answers=False)
    others = topics.subscriptions(run, name)
    if name == SERVER:
        return Meeting(status, others, frozenset({observer}), waits=False)
    return Meeting(topics.status(run, name), others)


class Company:
    """Record of other processes heard over one connection.

    ``meeting`` are the processes to look for, ``will`` is the last will that a broker publishes for a lost
    process, ``now`` a clock in seconds.
    """

    def __init__(self, meeting: Meeting | None, will: bytes, now: Callable[[], float]) -> None:
        self._meeting = meeting
        self._will = will
        self._now = now
        self._silent_since = now()
        self._answered = -math.inf
        self.met = asyncio.Event()

    def hears(self, frame: base.ArrivedFrame, *, retained: bool) -> bool:
        """Record the sender of a frame; return True if the frame asks and needs an answer."""
        meeting = self._meeting
        if meeting is None or retained or frame.topic == meeting.own or frame.payload == self._will:
            return False
        now = self._now()
        if meeting.heard_in(frame.topic):
            self._silent_since = now
            self.met.set()
        if not meeting.answers or frame.payload != ASKS or now - self._answered < _ANSWER_EVERY:
            return False
        self._answered = now
        return True

    async def lonely(
        self, brokers: int, limits: base.MqttLimits, publish: Callable[[str, bytes], Awaitable[None]]
    ) -> None:
        """Ask until no process was heard for too long since this call."""
        assert self._meeting is not None  # noqa: S101 - for mypy
        self._silent_since = self._now()
        strange, known = self._meeting.patience(brokers, limits)
        while True:
            silent = self._now() - self._silent_since
            if silent >= (known if self.met.is_set() else strange):
                return
            if silent >= limits.asks_after or not self.met.is_set():
                await publish(self._meeting.own, ASKS)
            await asyncio.sleep(limits.asks_every)
