"""HTTP endpoint of a process: ``/metrics``, ``/healthz``, ``/readyz``."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final

from securefl.base import logs
from securefl.base.errors import ConfigError
from securefl.runtime.monitoring.monitor import RunMonitor

_LOG = logs.log_of("runtime.monitoring")
MOST_CONNECTIONS: Final = 8
"""Connections at a time; further ones are closed at once."""
_PATIENCE: Final = 10.0
"""Seconds until a client that does not send or read is disconnected."""


@contextmanager
def monitoring(host: str, port: int, monitor: RunMonitor) -> Iterator[str]:
    """Serve the monitor's state until the end of the context; yield the endpoint's URL.

    Raises:
        ConfigError: the address cannot be used, or prometheus_client is missing.
    """
    try:
        from securefl.runtime.monitoring.families import Families  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError as error:
        raise ConfigError("--metrics-port", f"needs {error.name}", "install securefl[monitoring]") from error
    server = _listen(host, port, monitor, Families(monitor))
    thread = threading.Thread(target=server.serve_forever, name="securefl-metrics", daemon=True)
    # Signals are for the main thread; threads inherit the mask.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _LOG.info("metrics at %s", server.url)
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listen(host: str, port: int, monitor: RunMonitor, families: object) -> _Server:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _Server(family, address, monitor, families)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        field = "--metrics-host" if isinstance(error, socket.gaierror | UnicodeError) else "--metrics-port"
        raise ConfigError(
            field, f"cannot listen on {host}:{port}: {reason}", "choose a free port of this machine"
        ) from error


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, family: Any, address: Any, monitor: RunMonitor, families: object) -> None:
        self.address_family = family
        self.monitor = monitor
        self.families = families
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, _Handler)
        host, port = self.server_address[:2]
        shown = f"[{host!s}]" if family == socket.AF_INET6 else str(host)
        self.url = f"http://{shown}:{port}"

    def server_bind(self) -> None:
        # HTTPServer would look up the name of the host, which may take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, *_client: Any) -> None:
        _LOG.debug("a client of the metrics endpoint went away", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE
    server_version, sys_version = "securefl", ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - an optional extra

            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, kind, encode(self.server.families))  # type: ignore[arg-type]
        elif path == "/healthz":
            self._answer_json(HTTPStatus.OK, {"alive": True})
        elif path == "/readyz":
            reasons = self.server.monitor.unready()
            status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
            self._answer_json(status, {"ready": not reasons, "reasons": reasons})
        else:
            self._answer_json(HTTPStatus.NOT_FOUND, {"paths": ["/metrics", "/healthz", "/readyz"]})

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def _answer_json(self, status: HTTPStatus, value: dict[str, object]) -> None:
        self._answer(status, "application/json", json.dumps(value).encode() + b"\n")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
        _LOG.debug("metrics: " + format, *args)
