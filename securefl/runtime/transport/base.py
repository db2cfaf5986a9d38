"""Transport protocol: four methods that move opaque frames between topics.

- **At least once.** ``publish`` returns when the other side of the hop has taken responsibility (MQTT: PUBACK
  at QoS 1). Receivers de-duplicate by ``(sender, seq)``. Between two reconnects, frames of one publisher to
  one topic arrive in publishing order.
- **Untrusted.** Received frames may be forged, replayed or from an earlier run.
- **Endings.** After ``close`` every call, also a pending one, raises `TransportClosedError`; if the far side
  stays out of reach, `RunAbortedError`.

Several tasks may wait in ``publish`` and one in ``receive``. Cancelling a ``publish`` withdraws a frame not
yet sent; cancelling a ``receive`` loses nothing.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from securefl.base.errors import ConfigError, SecureflError, UsageError


@dataclass(frozen=True, slots=True)
class MqttLimits:
    """Waiting times (seconds) and bounds (frames) of one MQTT connection.

    ``in_flight`` bounds frames sent but not acknowledged, ``inbox`` those received but not read. When the
    inbox is full, mosquitto holds back all but its ``max_inflight_messages`` (amqtt nothing).

    A connection that lasts ``settled`` resets the time of failures. Otherwise two programs with one client id
    would displace each other for ever. ``first_within`` limits retries of the first connection. Pings to the
    broker come every ``keep_alive``; it reports this process as gone after ``silence``, if longer.

    Of several brokers, a process that hears no other leaves ``found_within`` after it connects, or ``alone``
    after the last frame. After ``asks_after`` it asks, every ``asks_every``.
    """

    keep_alive: int = 30
    patience: float = 10.0
    give_up_after: float = 60.0
    first_within: float = 0.0
    first_pause: float = 0.1
    longest_pause: float = 5.0
    settled: float = 5.0
    close_within: float = 3.0
    in_flight: int = 16
    inbox: int = 256
    found_within: float = 5.0
    alone: float = 15.0
    asks_after: float = 5.0
    asks_every: float = 1.0
    silence: int = 0


DEFAULT_PORTS = {"mqtt": 1883, "mqtts": 8883}


class TransportClosedError(SecureflError):
    """Error of a transport closed locally or (in memory) by a client with its id."""


class ArrivedFrame(NamedTuple):
    """A received frame."""

    topic: str
    payload: bytes


class Link(NamedTuple):
    """State of a connection."""

    up: bool
    kept: bool = False
    """True if the far side is known to have kept frames it had taken, and frames for us."""


class LostFrame(NamedTuple):
    """Frame that the far side had acknowledged and may have lost."""

    topic: str
    payload: bytes
    retain: bool = False


Carriers = Callable[[bytes, int], Iterable[bytes]]
"""Splits a frame into carrier frames of at most the given bytes."""


class Transport(Protocol):
    """Connection of one process to all others (guarantees: the module's docstring)."""

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send one frame; return once it is acknowledged.

        With ``retain`` the far side keeps the frame for later subscribers, replacing the topic's retained
        frame; an empty frame clears it.

        Raises:
            UsageError: the topic contains a wildcard.
        """
        ...

    async def receive(self) -> ArrivedFrame:
        """Return the next frame on a subscribed topic, waiting without limit."""
        ...

    def watch(
        self,
        on_change: Callable[[Link], None],
        lost: Callable[[bool], Iterable[LostFrame]] = lambda _kept: (),
        carriers: Carriers | None = None,
    ) -> None:
        """Set the one watcher, called when the connection breaks (or is down now) and when it is restored.

        On restoration, with subscriptions renewed, ``lost`` receives True if the far side is known to have
        kept acknowledged frames. It returns those that may be lost, which are sent in order, before all
        others. ``carriers`` splits frames too large for the connection.
        """
        ...

    async def close(self) -> None:
        """Disconnect without last will or remaining tasks; do nothing if closed."""
        ...


def topic_matches(topic_filter: str, topic: str) -> bool:
    """Return True if a filter covers a topic (MQTT 3.1.1, 4.7): ``+`` is one level, a final ``#`` any."""
    wanted, have = topic_filter.split("/"), topic.split("/")
    if have[0].startswith("$") and wanted[0] in {"+", "#"}:
        return False
    for index, level in enumerate(wanted):
        if level == "#":
            return True
        if index >= len(have) or level not in {"+", have[index]}:
            return False
    return len(wanted) == len(have)


def check_topic(topic: str) -> None:
    """Refuse a topic that cannot be published to.

    Raises:
        UsageError: the topic is empty, has a wildcard or a NUL, or is longer than MQTT allows.
    """
    if not topic or len(topic.encode()) > 65535 or any(bad in topic for bad in "+#\0"):
        raise UsageError(f"topic must have 1 to 65535 bytes, without +, # or NUL; found {topic[:80]!r}")


def check_filter(topic_filter: str) -> None:
    """Refuse an invalid topic filter.

    Raises:
        UsageError: a wildcard shares its level, or ``#`` is not the last level.
    """
    levels = topic_filter.split("/")
    fits = (
        all(level in {"+", "#"} or not set(level) & set("+#\0") for level in levels)
        and "#" not in levels[:-1]
    )
    if not topic_filter or not fits:
        raise UsageError(
            "topic_filter must be a valid MQTT filter: + alone in its level, # alone in the last;"
            f" found {topic_filter[:80]!r}"
        )


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """Address and credentials of a broker. ``repr`` and ``str`` show no password.

    ``ca_file`` signed the broker's certificate (None with ``mqtts``: the system's); ``cert_file`` and
    ``key_file`` identify this client. All are PEM.
    """

    scheme: str
    host: str
    port: int
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    username: str | None = None
    password: str | None = None

    @property
    def tls(self) -> bool:
        """True if the connection is encrypted and the broker authenticated."""
        return self.scheme == "mqtts"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"BrokerUrl({str(self)!r})"


def parse_broker_url(
    text: str,
    *,
    username: str | None = None,
    password: str | None = None,
    field: str = "broker",
    **files: str | os.PathLike[str] | None,
) -> BrokerUrl:
    """Parse ``mqtt://host[:port]`` or ``mqtts://host[:port]`` (default ports 1883 and 8883).

    Arguments override ``user:password@`` in the URL. ``field`` names the value in errors.

    Raises:
        ConfigError: anything else, or TLS files that are missing, incomplete or given without ``mqtts``.
    """
    example = "write mqtt://host:1883, or mqtts://host:8883 for TLS"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ConfigError(field, "is not a broker URL: host or port is wrong", example) from None
    if parts.scheme not in DEFAULT_PORTS or "://" not in text:
        raise ConfigError(
            field, f"has the unknown scheme {parts.scheme!r}" if parts.scheme else "has no scheme", example
        )
    if not parts.hostname or port == 0:
        raise ConfigError(field, "has no host" if not parts.hostname else "has the port 0", example)
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ConfigError(field, "has text after the port", example)

    if username is None and parts.username:
        username = unquote(parts.username)
    if password is None and parts.password:
        password = unquote(parts.password)
    if password is not None and username is None:
        raise ConfigError(field, "has a password, but no user name", "give both or neither")

    paths = _tls_files(
        {name: Path(value) for name, value in files.items() if value is not None}, parts, field
    )
    return BrokerUrl(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port if port is not None else DEFAULT_PORTS[parts.scheme],
        username=username,
        password=password,
        **paths,
    )


def _tls_files(paths: dict[str, Path], url: SplitResult, field: str) -> dict[str, Path]:
    if paths and url.scheme != "mqtts":
        raise ConfigError(field, f"{', '.join(paths)} needs TLS, but the URL is mqtt://", "write mqtts://")
    if ("cert_file" in paths) != ("key_file" in paths):
        raise ConfigError(field, "needs cert_file and key_file together", "give both or neither")
    for name, path in paths.items():
        if not path.is_file():
            raise ConfigError(f"{field}.{name}", f"no such file: {path}", "check the path")
    return paths
