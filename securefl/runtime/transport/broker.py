"""Local broker processes, on 127.0.0.1 only, with nothing kept on disk.

The kernel ends them (Linux) with the *thread* that starts them: start from a long-lived thread.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, Self, cast, get_args

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.runtime.transport.acl import mosquitto_acl
from securefl.runtime.transport.base import BrokerUrl
from securefl.runtime.transport.local_tls import LocalTls

BrokerKind = Literal["mosquitto", "embedded"]
BrokerWish = Literal["auto", "mosquitto", "embedded"]
"""``auto`` takes mosquitto if it is installed, else the embedded broker."""

_START_WITHIN = 20.0
_STOP_WITHIN = 5.0
_ATTEMPTS = 5
# A minimal MQTT 3.1.1 CONNECT: clean session, no keep-alive, empty client id (3.1).
_HELLO = bytes.fromhex("100c00044d5154540402 0000 0000")
_CONNACK = 0x20


def find_mosquitto() -> str | None:
    """Return the path of mosquitto, also from sbin."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


def broker_wish(text: str, option: str) -> BrokerWish:
    """Return ``text`` as a kind of broker; ConfigError names ``option``."""
    for wish in get_args(BrokerWish):
        if text == wish:
            return cast("BrokerWish", wish)
    raise ConfigError(option, f"{text!r} is not a kind of broker", "choose auto, mosquitto or embedded")


def choose_broker(wish: BrokerWish) -> BrokerKind:
    """Return the kind of broker to start.

    Raises:
        ConfigError: it is not installed.
    """
    if wish in {"auto", "mosquitto"} and find_mosquitto() is not None:
        return "mosquitto"
    if wish == "mosquitto":
        raise ConfigError("broker", "mosquitto is not installed", "install it, or choose the embedded broker")
    if importlib.util.find_spec("amqtt") is None:
        remedy = "install mosquitto, or pip install 'securefl[embedded-broker]'"
        raise ConfigError("broker", "the embedded broker needs amqtt, which is not installed", remedy)
    return "embedded"


class RunningBroker:
    """Broker process of this process, stopped on exit from the context."""

    def __init__(self, kind: BrokerKind, url: BrokerUrl, process: subprocess.Popen[bytes], log: Path) -> None:
        self.kind: BrokerKind = kind
        self.url = url
        self.log = log
        self._process = process

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """True if the process is alive."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Terminate the process, and kill it after 5 seconds."""
        if self.running:
            self._process.terminate()
        try:
            self._process.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


QUEUE_BYTES: Final = 1 << 30
"""Maximum bytes that mosquitto keeps for an absent client, to bound memory. Several times a round's traffic:
it drops frames beyond.
"""


def start_mosquitto(
    directory: Path,
    *,
    port: int = 0,
    tls: LocalTls | None = None,
    acl: bool = False,
    extra_lines: tuple[str, ...] = (),
) -> RunningBroker:
    """Start mosquitto with its files in ``directory``; return once it accepts connections.

    ``port`` 0 takes a free one. With ``tls`` clients need a certificate; ``acl`` enforces
    `securefl.runtime.transport.acl` on its common name.

    Raises:
        ConfigError: mosquitto is not installed, or ``acl`` without ``tls``.
        RunAbortedError: it does not start (the port is taken, ...); names the log.
    """
    program = find_mosquitto()
    if program is None:
        raise ConfigError("broker", "mosquitto is not installed", "install it, or choose the embedded broker")
    _check_acl(tls, acl)
    directory.mkdir(parents=True, exist_ok=True)

    def command(chosen: int) -> list[str]:
        config = directory / "mosquitto.conf"
        if acl:
            (directory / "mosquitto.acl").write_text(mosquitto_acl())
            (directory / "mosquitto.acl").chmod(0o600)
        config.write_text("\n".join([*_mosquitto_lines(directory, chosen, tls, acl), *extra_lines]) + "\n")
        return [program, "-c", str(config)]

    return _start("mosquitto", command, directory / "mosquitto.log", port, tls)


def start_embedded(
    directory: Path, *, port: int = 0, tls: LocalTls | None = None, acl: bool = False
) -> RunningBroker:
    """Start the embedded broker (amqtt), otherwise as `start_mosquitto`."""
    choose_broker("embedded")
    _check_acl(tls, acl)
    directory.mkdir(parents=True, exist_ok=True)

    def command(chosen: int) -> list[str]:
        settings: dict[str, object] = {"port": chosen, "acl": acl}
        if tls is not None:
            settings |= {
                "cafile": str(tls.ca_file),
                "certfile": str(tls.server_cert),
                "keyfile": str(tls.server_key),
            }
        return [sys.executable, "-P", "-m", "securefl.runtime.transport.embedded", json.dumps(settings)]

    return _start("embedded", command, directory / "embedded-broker.log", port, tls)


def _check_acl(tls: LocalTls | None, acl: bool) -> None:
    if acl and tls is None:
        raise ConfigError("broker.acl", "access rules need TLS, which identifies the parties", "turn TLS on")


def _mosquitto_lines(directory: Path, port: int, tls: LocalTls | None, acl: bool) -> list[str]:
    lines = [
        "per_listener_settings false",
        "persistence false",
        "sys_interval 0",
        "set_tcp_nodelay true",
        # mosquitto silently drops frames beyond a limit of messages.
        "max_queued_messages 0",
        f"max_queued_bytes {QUEUE_BYTES}",
        "max_inflight_messages 32",
        "log_dest stderr",
        "log_type error",
        "log_type warning",
        "log_type notice",
        "log_timestamp_format %Y-%m-%dT%H:%M:%S",
        # As root, mosquitto would change to a user who cannot read the keys.
        *(["user root"] if os.geteuid() == 0 else []),
        f"listener {port} 127.0.0.1",
    ]
    if tls is None:
        return [*lines, "allow_anonymous true"]
    lines += [
        f"cafile {tls.ca_file}",
        f"certfile {tls.server_cert}",
        f"keyfile {tls.server_key}",
        "tls_version tlsv1.2",
        "require_certificate true",
        "use_identity_as_username true",
        "allow_anonymous false",
    ]
    return [*lines, f"acl_file {directory / 'mosquitto.acl'}"] if acl else lines


def _start(
    kind: BrokerKind, command: Callable[[int], list[str]], log: Path, port: int, tls: LocalTls | None
) -> RunningBroker:
    reason = ""
    # Another program may take a free port before the broker does.
    for _ in range(_ATTEMPTS if port == 0 else 1):
        chosen = _bindable(port)
        with log.open("ab") as output:
            launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("_die_with_parent.py"))]
            process = subprocess.Popen(  # noqa: S603 - our interpreter, a file of ours, a list of arguments
                [*launcher, str(os.getpid()), *command(chosen)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C is for this process: parties still disconnect from the broker.
                start_new_session=True,
            )
        url = BrokerUrl("mqtts" if tls else "mqtt", "127.0.0.1", chosen, tls.ca_file if tls else None)
        broker = RunningBroker(kind, url, process, log)
        try:
            if _answers(broker, hello=tls is None):
                return broker
        except BaseException:
            broker.stop()
            raise
        reason = f"exit status {process.poll()}" if not broker.running else "it does not answer"
        broker.stop()
    raise RunAbortedError(f"the {kind} broker did not start ({reason}); see its log {log}")


def _bindable(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise RunAbortedError(f"no broker can be started on port {port}: {why}") from None
        return int(probe.getsockname()[1])


def _answers(broker: RunningBroker, *, hello: bool) -> bool:
    """Return True if the broker accepts a connection in time (without TLS: answers MQTT)."""
    deadline = time.monotonic() + _START_WITHIN
    while broker.running and time.monotonic() < deadline:
        address = (broker.url.host, broker.url.port)
        with contextlib.suppress(OSError), socket.create_connection(address, 1.0) as line:
            if not hello:
                return broker.running
            line.sendall(_HELLO)
            if line.recv(1) == bytes([_CONNACK]):
                return broker.running
        time.sleep(0.02)
    return False


def start_local_broker(kind: BrokerWish, directory: Path, port: int, tls: LocalTls | None) -> RunningBroker:
    """Start a broker on 127.0.0.1; TLS clients need certificates and obey the access rules."""
    start = start_mosquitto if choose_broker(kind) == "mosquitto" else start_embedded
    return start(directory, port=port, tls=tls, acl=tls is not None)
