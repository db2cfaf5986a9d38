"""Lists of brokers: how they are written, and what is said when none of them is of use."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.base.errors import ConfigError, RunAbortedError, UsageError
from securefl.runtime.transport.addresses import Brokers, as_brokers, none_of, parse_brokers
from securefl.runtime.transport.base import BrokerUrl, parse_broker_url

A, B = BrokerUrl("mqtt", "a", 1883), BrokerUrl("mqtt", "b", 2)


def test_addresses_are_read_in_their_order() -> None:
    assert parse_brokers("mqtt://a") == Brokers((A,))
    assert parse_brokers("mqtt://a, mqtt://b:2") == Brokers((A, B))
    assert str(Brokers((A, B))) == "mqtt://a:1883, mqtt://b:2"
    assert [len(Brokers((A, B))), *Brokers((A, B))] == [2, A, B]
    assert as_brokers(A) == as_brokers(Brokers((A,)))


def test_files_and_password_count_for_all_and_so_does_the_first_ones_user(tmp_path: Path) -> None:
    pem = tmp_path / "x.pem"
    pem.write_text("")
    text = "mqtts://north@a,mqtts://b,mqtts://south:own%2C@c"
    urls = parse_brokers(text, ca_file=pem, cert_file=pem, key_file=pem).urls
    assert {(url.ca_file, url.cert_file, url.key_file) for url in urls} == {(pem, pem, pem)}
    assert [(url.username, url.password) for url in urls] == [
        ("north", None),
        ("north", None),
        ("south", "own,"),
    ]
    shared = parse_brokers("mqtt://north@a,mqtt://b", password="secret")
    assert [(url.username, url.password) for url in shared] == [("north", "secret")] * 2
    own = parse_brokers("mqtt://north:secret@a,mqtt://b")
    assert [(url.username, url.password) for url in own] == [("north", "secret")] * 2
    assert "secret" not in f"{own} {own!r}"


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "broker", "no scheme"),
        ("mqtt://a,", "broker: address 2 of 2", "no scheme"),
        ("mqtt://a,b,mqtt://c", "broker: address 2 of 3", "no scheme"),
        ("mqtt://a,mqtt://a:1883", "broker: address 2 of 2", "is listed twice"),
        ("mqtt://a,mqtt://:secret@b", "broker: address 2 of 2", "a password, but no user name"),
    ],
)
def test_a_bad_address_is_named_by_its_place(text: str, where: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        parse_brokers(text)
    assert caught.value.path == where
    assert "secret" not in str(caught.value)


def test_files_for_tls_fit_all_addresses(tmp_path: Path) -> None:
    pem = tmp_path / "x.pem"
    pem.write_text("")
    with pytest.raises(ConfigError, match=r"address 2 of 2.*the URL is mqtt://"):
        parse_brokers("mqtts://a,mqtt://b", ca_file=pem)


def test_a_process_needs_a_broker() -> None:
    with pytest.raises(UsageError):
        Brokers(())


def test_what_each_broker_said_is_in_one_line() -> None:
    away = RunAbortedError(
        "cannot reach the broker mqtt://a:1883: connection refused; check that it is running, and the host "
        "and port"
    )
    refusal = ConfigError("broker", "mqtt://b:2 refuses user 'x'", "check user name and password")
    assert none_of({A: away}) is away
    assert none_of({B: refusal}) is refusal
    both = none_of({A: away, B: refusal})
    assert isinstance(both, RunAbortedError), "one that is away may come back"
    assert str(both) == (
        "none of the 2 brokers can be used: cannot reach the broker mqtt://a:1883: connection refused; "
        "mqtt://b:2 refuses user 'x'"
    )
    refused = none_of({A: refusal, B: refusal})
    assert isinstance(refused, ConfigError)
    assert str(refused).startswith("broker: all 2 brokers reject this process: mqtt://b:2 refuses user")


def test_a_change_is_made_to_each_address() -> None:
    assert Brokers((A, B)).each(lambda url: parse_broker_url(f"mqtt://x-{url.host}")) == Brokers(
        (BrokerUrl("mqtt", "x-a", 1883), BrokerUrl("mqtt", "x-b", 1883))
    )
