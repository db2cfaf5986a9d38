"""Whom a process hears at a broker, when it asks, and when it looks elsewhere."""

from __future__ import annotations

import asyncio

import pytest

from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.wire import topics
from securefl.runtime.transport.acl import OBSERVER, permits
from securefl.runtime.transport.base import ArrivedFrame, MqttLimits
from securefl.runtime.transport.broker_choice import ANSWERS, ASKS, Company, meeting_of
from tests.looped import looped

RUN, P00 = RunId("r"), PartyId("p00")
P01 = PartyId("p01")
WATCHER = f"sfl/1/r/status/{OBSERVER}"
GONE = b"gone"


class Clock:
    """Seconds that pass when it is told, or slept."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def company(name: str, clock: Clock) -> Company:
    return Company(meeting_of(RUN, PartyId(name)), GONE, clock)


@looped(
    "name, topic, counts",
    [
        ("p00", topics.down(RUN, P00), True),
        ("p00", topics.down(RUN, EVERYONE), True),
        ("p00", topics.status(RUN, SERVER), True),
        ("p00", topics.probe(RUN, P00), False),
        ("p00", topics.status(RUN, P00), False),
        ("server", topics.up(RUN, P00), True),
        ("server", topics.status(RUN, P00), True),
        ("server", topics.status(RUN, SERVER), False),
        ("server", WATCHER, False),
        ("server", topics.probe(RUN, SERVER), False),
        ("observer", topics.status(RUN, SERVER), True),
        ("observer", topics.up(RUN, P00), False),
    ],
)
def test_who_is_somebody_to_meet(name: str, topic: str, counts: bool) -> None:
    for payload in (ASKS, ANSWERS, b"a frame"):
        heard = company(name, Clock())
        heard.hears(ArrivedFrame(topic, payload), retained=False)
        assert heard.met.is_set() == counts


def test_what_a_broker_keeps_or_says_itself_is_nobodys_word() -> None:
    heard = company("p00", Clock())
    heard.hears(ArrivedFrame(topics.status(RUN, SERVER), GONE), retained=False)
    heard.hears(ArrivedFrame(topics.down(RUN, EVERYONE), b"the end"), retained=True)
    assert not heard.met.is_set()


def test_whoever_asks_is_answered_once_a_second() -> None:
    clock = Clock()
    server = company("server", clock)
    asked = [ArrivedFrame(topics.status(RUN, name), ASKS) for name in (P00, P01)]
    assert server.hears(asked[0], retained=False)
    assert not server.hears(asked[1], retained=False), "it hears the answer to the other one"
    clock.now += 1.0
    assert server.hears(asked[1], retained=False)
    clock.now += 1.0
    assert server.hears(ArrivedFrame(WATCHER, ASKS), retained=False), "an observer looks for the server"
    clock.now += 1.0
    assert not server.hears(ArrivedFrame(topics.status(RUN, SERVER), ASKS), retained=False)
    assert not server.hears(ArrivedFrame(topics.status(RUN, P00), ANSWERS), retained=False)
    assert not company("observer", clock).hears(
        ArrivedFrame(topics.status(RUN, SERVER), ASKS), retained=False
    )
    assert company("p00", clock).hears(ArrivedFrame(topics.status(RUN, SERVER), ASKS), retained=False)


def test_access_rules_let_everybody_ask_and_answer() -> None:
    for name in ("p00", "server", "dealer", OBSERVER):
        assert permits(name, "write", meeting_of(RUN, PartyId(name)).own)


def waits(
    name: str, brokers: int, heard_at: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> tuple[float, int]:
    """After how long it looks elsewhere and how often it has asked, where it hears somebody at such times."""
    clock, asked = Clock(), list[str]()
    one = company(name, clock)
    begun = clock.now

    async def passing(seconds: float) -> None:
        clock.now += seconds
        if clock.now - begun in heard_at:
            one.hears(
                ArrivedFrame(topics.status(RUN, SERVER if name != SERVER else P00), ANSWERS), retained=False
            )

    async def publish(topic: str, payload: bytes) -> None:
        assert (topic, payload) == (topics.status(RUN, PartyId(name)), ASKS)
        asked.append(topic)

    monkeypatch.setattr(asyncio, "sleep", passing)
    asyncio.run(one.lonely(brokers, MqttLimits(), publish))
    return clock.now - begun, len(asked)


def test_a_party_that_hears_nobody_asks_each_second_and_goes_after_five(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert waits("p00", 2, (), monkeypatch) == (5.0, 5)


def test_a_party_that_has_heard_the_server_waits_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks at once, hears the answer; silent for 5 s it asks again, and is alone after 15."""
    assert waits("p00", 2, (1.0,), monkeypatch) == (16.0, 11)
    assert waits("p00", 2, (1.0, 7.0, 13.0), monkeypatch) == (28.0, 1 + 1 + 1 + 10)


@pytest.mark.parametrize("brokers", [2, 3, 5])
def test_a_server_stays_for_longer_than_parties_need_to_try_all(
    brokers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, _ = waits("server", brokers, (), monkeypatch)
    tries, _ = waits("p00", brokers, (), monkeypatch)
    assert stays >= brokers * (tries + MqttLimits().longest_pause)
