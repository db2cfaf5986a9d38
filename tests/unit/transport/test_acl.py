"""The access rules agree with the topic grammar, and both renderings with each other."""

from __future__ import annotations

import pytest

from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.wire import topics
from securefl.runtime.transport.acl import OBSERVER, mosquitto_acl, permits
from securefl.runtime.transport.base import topic_matches
from tests.looped import looped

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
    ]
