"""The access rules agree with the topic grammar, and both renderings with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.wire import topics
from securefl.runtime.agents import board
from securefl.runtime.transport.acl import BRIDGED, OBSERVER, mosquitto_acl, permits
from securefl.runtime.transport.base import topic_matches
from tests.looped import looped

GUIDE = (Path(__file__).parents[3] / "docs" / "brokers.md").read_text()
GUIDE_LINES = re.findall(r"^topic .*$", GUIDE, re.MULTILINE)
RUN = RunId("r1")
P1, P2 = PartyId("p1"), PartyId("p2")


def test_what_the_protocol_needs_is_allowed() -> None:
    for party in (P1, P2):
        assert permits(party, "write", topics.up(RUN, party))
        assert permits(party, "read", topics.down(RUN, party))
        assert permits(party, "read", topics.down(RUN, EVERYONE))
        assert permits(party, "write", topics.status(RUN, party))
        assert permits(SERVER, "read", topics.up(RUN, party))
        assert permits(SERVER, "read", topics.status(RUN, party))
        assert permits(SERVER, "write", topics.down(RUN, party))
        assert permits(party, "read", topics.status(RUN, SERVER))
    assert permits(SERVER, "write", topics.status(RUN, SERVER))
    assert permits(SERVER, "write", topics.down(RUN, EVERYONE))
    for user in (P1, SERVER):
        for access in ("read", "write"):
            assert permits(user, access, topics.probe(RUN, user))
    assert permits(OBSERVER, "read", topics.up(RUN, P1))


@pytest.mark.parametrize("user", [P1, SERVER])
def test_every_subscription_yields_something(user: PartyId) -> None:
    readable = [topics.up(RUN, P1), topics.down(RUN, P1), topics.down(RUN, EVERYONE)]
    readable += [topics.status(RUN, P1), topics.status(RUN, SERVER), topics.probe(RUN, user)]
    for topic_filter in topics.subscriptions(RUN, user):
        assert any(topic_matches(topic_filter, one) and permits(user, "read", one) for one in readable)


@looped(
    "user, access, topic",
    [
        ("p1", "write", "sfl/1/r1/up/p2"),
        ("p1", "read", "sfl/1/r1/up/p1"),
        ("p1", "write", "sfl/1/r1/down/p2"),
        ("p1", "write", "sfl/1/r1/down/all"),
        ("p1", "read", "sfl/1/r1/down/p2"),
        ("p1", "write", "sfl/1/r1/status/p2"),
        ("p1", "read", "sfl/1/r1/status/p2"),
        ("p1", "write", "sfl/1/r1/peer/p1/p2"),
        ("p1", "read", "sfl/1/r1/peer/p2/p1"),
        ("p1", "read", "sfl/1/r1/probe/p2"),
        ("p1", "write", "sfl/1/r1/up/p1/more"),
        ("p1", "write", "sfl/2/r1/up/p1"),
        ("p1", "write", "elsewhere"),
        ("observer", "write", "sfl/1/r1/down/all"),
        ("server", "read", "sfl/1/r1/down/p1"),
        ("", "read", "sfl/1/r1/down/all"),
        ("+", "write", "sfl/1/r1/up/p1"),
        ("#", "write", "sfl/1/r1/up/p1"),
    ],
)
def test_what_is_not_needed_is_denied(user: str, access: str, topic: str) -> None:
    assert not permits(user, "read" if access == "read" else "write", topic)


def test_peers_may_write_to_each_other_under_their_own_name() -> None:
    assert permits(P1, "write", "sfl/1/r1/peer/p2/p1")
    assert permits(P2, "read", "sfl/1/r1/peer/p2/p1")


def test_the_mosquitto_file_lists_patterns_and_users() -> None:
    lines = mosquitto_acl().splitlines()
    assert "pattern write sfl/1/+/up/%u" in lines
    assert "pattern readwrite sfl/1/+/probe/%u" in lines
    assert (
        lines.index("user server") < lines.index("topic write sfl/1/+/down/+") < lines.index("user observer")
    )
    # A topic line before the first user line would be for clients without a name.
    assert not any(line.startswith("topic") for line in lines[: lines.index("user server")])


def test_a_bridge_speaks_for_its_parties_and_hears_what_is_for_them() -> None:
    before, after = mosquitto_acl().splitlines(), mosquitto_acl(["north"]).splitlines()
    assert after[: len(before)] == before
    assert after[len(before) :] == [
        "",
        "user north",
        "topic write sfl/1/+/up/+",
        "topic readwrite sfl/1/+/status/+",
        "topic read sfl/1/+/down/+",
        "topic readwrite sfl/1/+/peer/server/server",
        "topic read sfl-agents/1/+/orders/#",
        "topic write sfl-agents/1/+/status/+/+",
        "topic read sfl-agents/1/+/status/+/server",
    ]


AGENTS = board.Topics("trial")
OF_AGENTS = [
    AGENTS.submission("one"),
    AGENTS.stop("one"),
    AGENTS.part("one", 3),
    AGENTS.notice("one", "server"),
    AGENTS.notice("one", "p1"),
    AGENTS.probe,
]


@looped("topic", OF_AGENTS)
def test_a_bridge_may_do_for_agents_what_these_may_do(topic: str) -> None:
    """Messages that agents read come in, those that they write go out; of others only their notices."""
    assert allowed_to_bridges("read", topic) == permits(P1, "read", topic)
    writers = (P1, P2, SERVER)
    notice = topic.startswith(f"{AGENTS.root}/status/")
    assert allowed_to_bridges("write", topic) == (
        notice and any(permits(one, "write", topic) for one in writers)
    )


@looped(
    "line, topic",
    [(line, topic) for line in GUIDE_LINES for topic in OF_AGENTS],
)
def test_the_lines_of_the_guide_are_allowed_at_the_hub(line: str, topic: str) -> None:
    _, topic_filter, direction, _ = line.split()
    if not topic_matches(topic_filter, topic):
        return
    for access in {"in": ["read"], "out": ["write"], "both": ["read", "write"]}[direction]:
        assert allowed_to_bridges(access, topic)


@looped("topic", [topic for topic in OF_AGENTS if topic != AGENTS.probe])
def test_the_guide_has_a_line_for_each_topic_of_agents(topic: str) -> None:
    ways = {line.split()[2] for line in GUIDE_LINES if topic_matches(line.split()[1], topic)}
    wanted = {"in": allowed_to_bridges("read", topic), "out": allowed_to_bridges("write", topic)}
    assert ways == {way for way, needed in wanted.items() if needed}


def allowed_to_bridges(access: str, topic: str) -> bool:
    return any(access in which and topic_matches(topic_filter, topic) for which, topic_filter in BRIDGED)
