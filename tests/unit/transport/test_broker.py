"""Choosing a broker, and what connecting says about TLS files and refusals."""

from __future__ import annotations

import dataclasses
import importlib.util
import ssl
from pathlib import Path

import aiomqtt
import pytest
from aiomqtt.exceptions import MqttConnectError

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.runtime.transport import broker
from securefl.runtime.transport.base import BrokerUrl
from securefl.runtime.transport.broker import broker_wish, choose_broker, start_embedded, start_mosquitto
from securefl.runtime.transport.connecting import explain, hung_up, tls_context
from securefl.runtime.transport.local_tls import make_local_tls
from tests.chaos.conductor import UNREACHED


def installed(monkeypatch: pytest.MonkeyPatch, *, mosquitto: bool, amqtt: bool) -> None:
    monkeypatch.setattr(broker, "find_mosquitto", lambda: "/x/mosquitto" if mosquitto else None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object() if amqtt else None)


def test_a_wish_is_one_of_three_words() -> None:
    assert [broker_wish(text, "--broker") for text in ("auto", "mosquitto", "embedded")] == [
        "auto",
        "mosquitto",
        "embedded",
    ]
    with pytest.raises(ConfigError, match="'hive' is not a kind of broker"):
        broker_wish("hive", "--broker")


def test_auto_prefers_mosquitto(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, mosquitto=True, amqtt=True)
    assert [choose_broker(wish) for wish in ("auto", "mosquitto", "embedded")] == [
        "mosquitto",
        "mosquitto",
        "embedded",
    ]
    installed(monkeypatch, mosquitto=False, amqtt=True)
    assert choose_broker("auto") == "embedded"


def test_a_missing_broker_comes_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, mosquitto=False, amqtt=False)
    for attempt in (
        lambda: choose_broker("auto"),
        lambda: choose_broker("mosquitto"),
        lambda: choose_broker("embedded"),
        lambda: start_mosquitto(tmp_path),
        lambda: start_embedded(tmp_path),
    ):
        with pytest.raises(ConfigError) as caught:
            attempt()
        assert caught.value.remedy


def test_access_rules_need_tls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, mosquitto=True, amqtt=True)
    for start in (start_mosquitto, start_embedded):
        with pytest.raises(ConfigError, match="TLS"):
            start(tmp_path, acl=True)


def test_wrong_tls_files_are_named(tmp_path: Path) -> None:
    tls = make_local_tls(tmp_path / "tls", ["p1", "p2"])
    junk = tmp_path / "junk.pem"
    junk.write_text("not a certificate")
    good = BrokerUrl("mqtts", "h", 1, tls.ca_file, *tls.clients["p1"])
    assert tls_context(good).check_hostname
    with pytest.raises(ConfigError, match=r"junk\.pem"):
        tls_context(dataclasses.replace(good, ca_file=junk))
    with pytest.raises(ConfigError, match=r"junk\.pem"):
        tls_context(dataclasses.replace(good, cert_file=junk))
    with pytest.raises(ConfigError, match="client-p2"):
        tls_context(dataclasses.replace(good, key_file=tls.clients["p2"].key_file))


def test_chaos_runs_know_a_process_that_has_not_reached_the_broker() -> None:
    """They start it again, as a service does."""
    causes = (
        ConnectionRefusedError(111, "refused"),
        ssl.SSLEOFError("eof"),
        ssl.SSLZeroReturnError("closed"),
    )
    failed = [aiomqtt.MqttError("failed") for _ in causes]
    for error, cause in zip(failed, causes, strict=True):
        error.__cause__ = cause
    assert [hung_up(error) for error in failed] == [False, True, True]
    for error in (
        *failed,
        aiomqtt.MqttError("Operation timed out"),
        aiomqtt.MqttError("the broker closed the connection"),
    ):
        said = explain(BrokerUrl("mqtt", "somewhere", 1883), error)
        assert isinstance(said, RunAbortedError)
        assert any(words in str(said) for words in UNREACHED), said


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MqttConnectError(4), ConfigError),
        (MqttConnectError(5), ConfigError),
        (MqttConnectError(3), RunAbortedError),
        (aiomqtt.MqttCodeError(7), RunAbortedError),
        (aiomqtt.MqttError("Operation timed out"), RunAbortedError),
        (aiomqtt.MqttError("the broker closed the connection"), RunAbortedError),
    ],
)
def test_errors_are_one_line_with_the_broker_and_without_the_password(
    error: aiomqtt.MqttError, kind: type[Exception]
) -> None:
    url = BrokerUrl("mqtt", "somewhere", 1883, username="alice", password="hunter2")
    said = explain(url, error)
    assert type(said) is kind
    assert "mqtt://somewhere:1883" in str(said)
    assert "\n" not in str(said)
    assert "hunter2" not in str(said)
