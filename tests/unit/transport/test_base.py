"""Broker URLs, topic filters and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.base.errors import ConfigError, UsageError
from securefl.runtime.transport.base import (
    BrokerUrl,
    check_filter,
    check_topic,
    parse_broker_url,
    topic_matches,
)
from tests.looped import looped


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mqtt://localhost", BrokerUrl("mqtt", "localhost", 1883)),
        ("mqtt://10.0.0.1:2883/", BrokerUrl("mqtt", "10.0.0.1", 2883)),
        ("mqtts://broker.example", BrokerUrl("mqtts", "broker.example", 8883)),
        ("mqtt://[::1]:1", BrokerUrl("mqtt", "::1", 1)),
        ("mqtt://al%40ice:s%3Acret@h:5", BrokerUrl("mqtt", "h", 5, username="al@ice", password="s:cret")),
    ],
)
def test_good_urls(text: str, expected: BrokerUrl) -> None:
    assert parse_broker_url(text) == expected


@looped(
    "text",
    [
        "",
        "localhost",
        "localhost:1883",
        "http://localhost",
        "mqtt:localhost",
        "mqtt://",
        "mqtt://:1883",
        "mqtt://host:port",
        "mqtt://host:0",
        "mqtt://host:70000",
        "mqtt://host/topic",
        "mqtt://host?x=1",
        "mqtt://[::1",
        "mqtt://:secret@host",
    ],
)
def test_bad_urls_name_the_field_and_a_remedy(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_broker_url(text, field="mqtt.url")
    assert caught.value.path == "mqtt.url"
    assert caught.value.remedy
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tls_files_must_exist_belong_together_and_fit_the_scheme(tmp_path: Path) -> None:
    pem = tmp_path / "x.pem"
    pem.write_text("")
    with pytest.raises(ConfigError, match="mqtts://"):
        parse_broker_url("mqtt://h", ca_file=pem)
    with pytest.raises(ConfigError, match="needs cert_file and key_file together"):
        parse_broker_url("mqtts://h", cert_file=pem)
    with pytest.raises(ConfigError, match="no such file"):
        parse_broker_url("mqtts://h", ca_file=tmp_path / "missing")
    url = parse_broker_url("mqtts://h", ca_file=str(pem), cert_file=pem, key_file=pem)
    assert (url.ca_file, url.cert_file, url.key_file) == (pem, pem, pem)


def test_a_url_never_shows_its_password() -> None:
    url = parse_broker_url("mqtt://h", username="alice", password="hunter2")
    assert url.password == "hunter2"
    for shown in (str(url), repr(url), f"{url}", f"{url!r}"):
        assert "hunter2" not in shown


def test_an_ipv6_url_reads_back() -> None:
    url = parse_broker_url("mqtt://[::1]:99")
    assert parse_broker_url(str(url)) == url


@looped(
    "topic_filter, topic, expected",
    [
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/+", "a/b", True),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("+/b", "a/b", True),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("a/+/c", "a/b/d", False),
    ],
)
def test_topic_filters(topic_filter: str, topic: str, expected: bool) -> None:
    assert topic_matches(topic_filter, topic) is expected


@pytest.mark.parametrize("topic", ["", "a/+", "#", "a\0b", "x" * 70_000])
def test_topics_that_cannot_be_published_to(topic: str) -> None:
    with pytest.raises(UsageError):
        check_topic(topic)


@pytest.mark.parametrize("topic_filter", ["", "a/#/b", "a/b#", "a/b+", "a\0"])
def test_filters_that_cannot_be_subscribed_to(topic_filter: str) -> None:
    with pytest.raises(UsageError):
        check_filter(topic_filter)
