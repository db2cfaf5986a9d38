from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.wire import topics
from tests.looped import looped

RUN = RunId("run")
P = PartyId("p-1_x")
TOPICS = (topics.up, topics.down, topics.status, topics.probe)
BAD_NAMES = ["", "all", "+", "#", "a/b", "/", "a/", "A", "a\n", "\na", "a b", "a+", "a#", "-a", "_a", "$sys"]
BAD_NAMES += ["a" * 33, "a\x00", "\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{ARABIC-INDIC DIGIT ONE}"]


def test_grammar() -> None:
    assert topics.up(RUN, P) == "sfl/1/run/up/p-1_x"
    assert topics.down(RUN, P) == "sfl/1/run/down/p-1_x"
    assert topics.down(RUN, EVERYONE) == "sfl/1/run/down/all"
    assert topics.status(RUN, P) == "sfl/1/run/status/p-1_x"
    assert topics.status(RUN, SERVER) == "sfl/1/run/status/server"
    assert topics.probe(RUN, P) == "sfl/1/run/probe/p-1_x"
    assert topics.probe(RUN, SERVER) == "sfl/1/run/probe/server"


def test_subscriptions() -> None:
    assert topics.subscriptions(RUN, SERVER) == (
        "sfl/1/run/up/+",
        "sfl/1/run/status/+",
    )
    assert topics.subscriptions(RUN, P) == (
        "sfl/1/run/down/p-1_x",
        "sfl/1/run/down/all",
        "sfl/1/run/status/server",
    )


@looped("topic, name", product([*TOPICS, topics.subscriptions], BAD_NAMES))
def test_names_that_are_none(topic: Callable[[RunId, PartyId], object], name: str) -> None:
    with pytest.raises(UsageError):
        topic(RUN, PartyId(name))
    with pytest.raises(UsageError):
        topic(RunId(name), P)
    with pytest.raises(UsageError):
        topic(RunId(name), SERVER)


def test_reserved_names_only_where_they_mean_something() -> None:
    for topic in (topics.up, topics.down):
        with pytest.raises(UsageError):
            topic(RUN, SERVER)
    for topic in (topics.up, topics.status, topics.probe):
        with pytest.raises(UsageError):
            topic(RUN, EVERYONE)
    with pytest.raises(UsageError):
        topics.up(RunId("server"), P)


def test_sender_hints() -> None:
    assert topics.sender_hint(topics.up(RUN, P)) == P
    assert topics.sender_hint(topics.status(RUN, P)) == P
    assert topics.sender_hint(topics.down(RUN, P)) == SERVER
    assert topics.sender_hint(topics.down(RUN, EVERYONE)) == SERVER
    assert topics.sender_hint(topics.probe(RUN, SERVER)) == SERVER
    for topic in ("", "x", "sfl/1/run/up/all", "sfl/1/run/up/A\n", "sfl/1/run/up/a/b", "sfl/1/run/other/a"):
        assert topics.sender_hint(topic) == "broker"


def test_status_topics() -> None:
    assert topics.status_party(topics.status(RUN, P)) == P
    assert topics.status_party(topics.up(RUN, P)) is None
    assert topics.status_party(topics.status(RUN, SERVER)) == SERVER
    for name in ("all", "", "+", "a\n"):
        with pytest.raises(PeerError, match="broker"):
            topics.status_party(f"sfl/1/run/status/{name}")
