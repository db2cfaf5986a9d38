"""Meeting at a broker: of several brokers, a process stays at one where it hears the others.

Brokers that need not know of each other part a run as soon as one process goes on at another one and the rest
does not. So whoever has several addresses asks, while it hears nobody: unsigned, on the topic of its own
status, and whoever hears it answers on its own, at most once a second. A party looks for the server; the
server for anybody. Whoever has no answer goes on to the next broker that takes it. The server stays longer at
each of them than a party needs for all, so that they meet.

A broker can forge an answer and so keep a process where nobody is, as it can drop all that passes it.
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
"""Seconds for each broker of the list, and once more: a party needs at most that for one of them."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Whom a process wants to meet, and how it asks."""

    own: str
    """The topic on which it asks and answers."""
    others: tuple[str, ...]
    """Filters of the topics on which the others are heard."""
    nobody: frozenset[str] = frozenset()
    """Topics of processes that do not count, though the filters cover them."""
    waits: bool = True
    """Whether it can do nothing without them."""
    answers: bool = True
    """Whether it is somebody to meet."""

    def heard_in(self, topic: str) -> bool:
        """Whether what is published there is from somebody to meet."""
        return topic not in self.nobody and any(base.topic_matches(wanted, topic) for wanted in self.others)

    def patience(self, brokers: int, limits: base.MqttLimits) -> tuple[float, float]:
        """Seconds after which it looks elsewhere: where it has heard nobody yet, and where it has."""
        if self.waits:
            return limits.found_within, limits.alone
        return _SERVER_STAYS * (brokers + 1), _SERVER_STAYS * (brokers + 1)


def meeting_of(run: RunId, name: PartyId) -> Meeting:
    """Whom the process ``name`` of a run wants to meet: the server, or, if it is that, anybody."""
    status = topics.status(run, SERVER)
    observer = f"{status.removesuffix(SERVER)}{OBSERVER}"
    if name == OBSERVER:
        return Meeting(observer, (topics.down(run, EVERYONE), status), answers=False)
    others = topics.subscriptions(run, name)
    if name == SERVER:
        return Meeting(status, others, frozenset({observer}), waits=False)
    return Meeting(topics.status(run, name), others)


class Company:
    """Whether others are heard over one connection.

    Args:
        meeting: whom the process wants to meet; None for one that needs nobody.
        will: what a broker says in the name of a process that is gone.
        now: a clock, in seconds.
    """

    def __init__(self, meeting: Meeting | None, will: bytes, now: Callable[[], float]) -> None:
        self._meeting = meeting
        self._will = will
        self._now = now
        self._silent_since = now()
        self._answered = -math.inf
        self.met = asyncio.Event()
        """Somebody has been heard."""

    def hears(self, frame: base.ArrivedFrame, *, retained: bool) -> bool:
        """Note who is heard in a frame. Return whether it asks, and is to be answered."""
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
        """Return once nobody has been heard for too long; ask meanwhile.

        Calling it again begins to wait anew.
        """
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
