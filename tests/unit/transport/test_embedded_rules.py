"""The embedded broker's rules, asked without a connection."""

from __future__ import annotations

import asyncio
import ssl
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from amqtt.broker import Broker
from amqtt.contexts import Action, BrokerConfig, ListenerConfig
from amqtt.errors import AMQTTError

from securefl.runtime.transport.embedded import EmbeddedBroker, Subscriptions, TopicRules, Welcome
from securefl.runtime.transport.local_tls import make_local_tls


def may(user: str | None, action: Any, topic: str | None) -> bool:
    rules = TopicRules.__new__(TopicRules)
    session = None if user is None else SimpleNamespace(username=user)
    return bool(asyncio.run(rules.topic_filtering(session=session, topic=topic, action=action)))


def test_topics_are_read_and_written_by_the_rules() -> None:
    assert may("p00", Action.PUBLISH, "sfl/1/run/up/p00")
    assert not may("p00", Action.PUBLISH, "sfl/1/run/up/p01")
    assert may("p00", Action.RECEIVE, "sfl/1/run/down/p00")
    assert not may("p00", Action.PUBLISH, "sfl/1/run/down/p00"), "what it may read it may not write"
    assert not may("p00", Action.RECEIVE, "sfl/1/run/down/p01")
    assert may("p00", Action.SUBSCRIBE, "sfl/1/run/down/p01"), "subscribing is free, receiving is not"


def test_nobody_reads_and_writes_nothing() -> None:
    for user, topic in ((None, "sfl/1/run/down/all"), ("p00", None), ("", "sfl/1/run/down/all")):
        for action in (Action.PUBLISH, Action.RECEIVE):
            assert not may(user, action, topic)
    assert not asyncio.run(Welcome.__new__(Welcome).authenticate(session=None))


def test_clients_need_a_certificate_and_tls_1_2(tmp_path_factory: pytest.TempPathFactory) -> None:
    tls = make_local_tls(tmp_path_factory.mktemp("x") / "tls", ["p1"])
    files = {"cafile": tls.ca_file, "certfile": tls.server_cert, "keyfile": tls.server_key}
    listener = ListenerConfig(bind="127.0.0.1:1", ssl=True, **{name: str(f) for name, f in files.items()})
    context = EmbeddedBroker._create_ssl_context(listener)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


class Writer:
    """A connection whose client has shown a certificate."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = False

    def get_ssl_info(self) -> Any:
        return SimpleNamespace(getpeercert=lambda: {"subject": ((("commonName", self.name),),)})

    async def close(self) -> None:
        self.closed = True


def test_a_client_id_stays_with_the_user_that_had_it_first() -> None:
    """Else a party takes over another's connection, and what the broker has kept for it."""
    broker = EmbeddedBroker.__new__(EmbeddedBroker)
    broker._owners = {}

    async def begun(*_args: object) -> tuple[None, Any]:
        return None, SimpleNamespace(client_id="run-p00", username=None, parent=0, clean_session=False)

    async def comes(name: str) -> tuple[Writer, str]:
        writer = Writer(name)
        with patch.object(Broker, "_initialize_client_session", begun):
            _, session = await broker._initialize_client_session(None, writer, "127.0.0.1", 1)
        return writer, session.username

    for _ in range(2):
        assert asyncio.run(comes("p00"))[1] == "p00"
    with pytest.raises(AMQTTError, match="belongs to another user"):
        asyncio.run(comes("p01"))


def test_subscriptions_that_come_meanwhile_end_nobodys_connection() -> None:
    """amqtt goes through the table and awaits in between."""
    table = Subscriptions({"a": [1, 2], "b": [3]})
    for topic_filter in table:
        table[topic_filter + topic_filter] = [4]
    assert set(table) == {"a", "b", "aa", "bb"}
    seen: list[tuple[str, int]] = []
    for topic_filter, subscribers in table.items():
        for one in subscribers:
            seen.append((topic_filter, one))
            table["a"].clear()
            table[f"{one}"] = []
    assert seen == [("a", 1), ("a", 2), ("b", 3), ("aa", 4), ("bb", 4)], "nobody is left out"


def test_the_broker_goes_through_a_copy_of_its_table() -> None:
    async def table() -> object:
        listener = ListenerConfig(bind="127.0.0.1:1")
        return EmbeddedBroker(BrokerConfig(listeners={"default": listener}, plugins={})).subscriptions

    assert isinstance(asyncio.run(table()), Subscriptions)
