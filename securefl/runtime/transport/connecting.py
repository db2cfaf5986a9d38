"""Connection to one broker, and one-line errors for its failures.

All private names of aiomqtt 2.5 and paho-mqtt 2.1 that securefl touches are in this file. Workarounds:

- A connection that ends before CONNACK (TLS 1.3 reports a refused client certificate only after the
  handshake) would wait for the time limit; here it fails at once.
- aiomqtt resets its state after the wait, so a connection that ends in the loop turn of its acceptance would
  stand for ever; here the loss is remembered.
- aiomqtt acknowledges a frame when it enters its queue, and drops it if that queue is full. Acknowledging by
  hand lets the broker hold back and resend frames.
- A writer is registered in the loop's next turn, when its socket may be closed; here that is checked.
- ``connect`` blocks in a thread that cannot be interrupted; a cancelled ``open`` waits for it and undoes it.
- The housekeeping task is awaited on exit: a loop can end without a warning.
"""

import asyncio
import contextlib
import logging
import math
import socket
import ssl
from typing import Any

import aiomqtt
from paho.mqtt.reasoncodes import ReasonCode

from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.runtime.transport.addresses import bound_client_id
from securefl.runtime.transport.base import BrokerUrl, MqttLimits

_BAD_USER = {4, 134}
_NOT_AUTHORISED = {5, 135}
_LONGEST_SILENCE = 65_535
"""Maximum seconds in CONNECT (MQTT 3.1.1, 3.1.2.10)."""
_REFUSED = 0x80

_LOG = logging.getLogger("securefl.runtime.transport.aiomqtt")
# These messages are also raised, or are noise about a connection that is reopened.
_LOG.setLevel(logging.CRITICAL)


class Connection(aiomqtt.Client):
    """aiomqtt's client for one connection, from `open` to `end`.

    The client id is bound to the credentials (:func:`bound_client_id`). The broker expects a frame within
    ``silence`` seconds, or ``keep_alive`` if longer. ``forget`` drops the broker's session.
    """

    def __init__(
        self,
        url: BrokerUrl,
        client_id: str,
        last_will: tuple[str, bytes] | None,
        limits: MqttLimits,
        *,
        forget: bool = False,
    ) -> None:
        tls = tls_context(url) if url.tls else None
        super().__init__(
            url.host,
            url.port,
            username=url.username,
            password=url.password,
            identifier=bound_client_id(client_id, url),
            clean_session=forget,
            will=aiomqtt.Will(*last_will, qos=1) if last_will else None,
            keepalive=min(max(limits.keep_alive, limits.silence), _LONGEST_SILENCE),
            max_inflight_messages=limits.in_flight,
            timeout=limits.patience,
            tls_context=tls,
            logger=_LOG,
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        )
        self.pending_calls_threshold = limits.in_flight
        self._url = url
        self._name = client_id
        self._asks_after = limits.keep_alive
        self._hung_up = False
        self.session_present = False
        self._client.manual_ack_set(on=True)

    async def open(self) -> None:
        """Connect and wait for the broker's CONNACK.

        Raises:
            aiomqtt.MqttError: the connection failed; see `explain`.
        """
        opening = asyncio.ensure_future(self.__aenter__())
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            # paho's thread ends within 5 seconds; do not wait for CONNACK too.
            if not self._connected.done():
                self._connected.set_exception(aiomqtt.MqttError("cancelled"))
            with contextlib.suppress(aiomqtt.MqttError):
                await opening
            await self._abandon()
            raise
        except aiomqtt.MqttError:
            await self._abandon()
            raise
        if self._hung_up:
            await self._abandon()
            raise aiomqtt.MqttError("the connection was lost at once")
        # paho announces this number and also pings by it.
        self._client._keepalive = self._asks_after

    async def subscribe_all(self, filters: tuple[str, ...]) -> None:
        """Subscribe at QoS 1.

        Raises:
            ConfigError: the broker refuses one of the subscriptions.
            aiomqtt.MqttError: the connection was lost.
        """
        if not filters:
            return
        answers = await self.subscribe([(one, 1) for one in filters])
        codes = [answer.value if isinstance(answer, ReasonCode) else answer for answer in answers]
        for topic_filter, code in zip(filters, codes, strict=True):
            if code >= _REFUSED:
                reason = f"{self._url} does not allow {self._name!r} to subscribe to {topic_filter}"
                raise ConfigError("broker", reason, "check the broker's access rules")

    async def unsubscribe_all(self, filters: tuple[str, ...], within: float) -> None:
        """Unsubscribe if the broker still answers, within ``within`` seconds."""
        if not filters or self._disconnected.done():
            return
        leaving = asyncio.ensure_future(self.unsubscribe(list(filters), timeout=math.inf))
        try:
            await asyncio.wait(
                {leaving, self._disconnected}, timeout=within, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)

    async def end(self, within: float) -> None:
        """Disconnect within ``within`` seconds, and release all resources."""
        try:
            async with asyncio.timeout(within):
                await self.__aexit__(None, None, None)
        except (TimeoutError, aiomqtt.MqttError):
            pass
        finally:
            await self._abandon()

    async def lost(self) -> None:
        """Wait for the end of the connection; raise ``aiomqtt.MqttError``, to end a task group."""
        await asyncio.wait([self._disconnected])
        raise aiomqtt.MqttError("the connection was lost")

    def leftovers(self) -> list[aiomqtt.Message]:
        """Return frames that had arrived when the connection ended."""
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]

    def acknowledge(self, message: aiomqtt.Message) -> None:
        """Acknowledge a frame to the broker."""
        self._client.ack(message.mid, message.qos)

    def _on_connect(
        self, client: Any, userdata: Any, flags: Any, reason_code: ReasonCode, properties: Any = None
    ) -> None:
        self.session_present = bool(flags.session_present)
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_disconnect(
        self, client: Any, userdata: Any, flags: Any, reason_code: ReasonCode, properties: Any = None
    ) -> None:
        self._hung_up = True
        if not self._connected.done():
            self._connected.set_exception(aiomqtt.MqttError("the broker closed the connection"))
            return
        super()._on_disconnect(client, userdata, flags, reason_code, properties)
        # aiomqtt may discard this future unread, or its reader was cancelled.
        if self._disconnected.done() and not self._disconnected.cancelled():
            self._disconnected.exception()

    def _on_socket_register_write(self, client: Any, _userdata: Any, sock: Any) -> None:
        def write() -> None:
            try:
                client.loop_write()
            except Exception as error:
                if not self._disconnected.done():
                    self._disconnected.set_exception(error)

        def register() -> None:
            if sock.fileno() >= 0:
                self._loop.add_writer(sock.fileno(), write)

        self._loop.call_soon_threadsafe(register)

    def _on_socket_unregister_write(self, client: Any, userdata: Any, sock: Any) -> None:
        if sock.fileno() >= 0:
            super()._on_socket_unregister_write(client, userdata, sock)

    async def _abandon(self) -> None:
        loop = asyncio.get_running_loop()
        # on_socket_open schedules the reader and the housekeeping task for the loop's next turn.
        await asyncio.sleep(0)
        transport = self._client.socket()
        if isinstance(transport, socket.socket) and transport.fileno() >= 0:
            loop.remove_reader(transport.fileno())
            loop.remove_writer(transport.fileno())
            transport.close()
        if self._misc_task is not None:
            self._misc_task.cancel()
            await asyncio.wait([self._misc_task])
        for future in (self._connected, self._disconnected):
            if future.done() and not future.cancelled():
                future.exception()


def tls_context(url: BrokerUrl) -> ssl.SSLContext:
    """Return a context of TLS 1.2 or later, host name checked, with the client's certificate if any.

    Raises:
        ConfigError: a file is invalid.
    """
    try:
        context = ssl.create_default_context(cafile=url.ca_file)
    except (OSError, ssl.SSLError):
        raise ConfigError("ca_file", f"{url.ca_file} is not a PEM certificate", "check the file") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if url.cert_file is not None:
        try:
            context.load_cert_chain(url.cert_file, url.key_file, password=_no_password)
        except (OSError, ssl.SSLError):
            reason = f"{url.cert_file} and {url.key_file} are not a certificate with its unencrypted key"
            raise ConfigError("cert_file", reason, "both must be PEM, and belong together") from None
    return context


def _no_password() -> str:
    """Refuse a key that needs a password, without OpenSSL's prompt."""
    return ""


def explain(url: BrokerUrl, error: aiomqtt.MqttError) -> SecureflError:
    """Return a one-line error for a failed connection, with a remedy."""
    if isinstance(error, aiomqtt.MqttCodeError):
        code = error.rc.value if isinstance(error.rc, ReasonCode) else error.rc
        if code in _BAD_USER | _NOT_AUTHORISED:
            who = f"user {url.username!r}" if url.username is not None else "a client without a user name"
            return ConfigError("broker", f"{url} refuses this process: {who}", "check user name and password")
        return RunAbortedError(f"{url} refuses the connection: {error}")
    if hung_up(error):
        hint = (
            "the client certificate is missing or rejected"
            if url.tls
            else "this is a TLS port, which needs mqtts://"
        )
        # A proxy of a broker that is down does it, and no service restarts a process after a refusal.
        return RunAbortedError(
            f"the broker {url} closed the connection before answering (unless it is down, {hint})"
        )
    return _explain_cause(url, error)


def hung_up(error: aiomqtt.MqttError) -> bool:
    """Return True if the broker closed the connection unanswered: it refuses this client, or is down."""
    cause = error.__cause__ or error.__context__
    ended = isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return ended or "closed the connection" in str(error)


def was_down(error: aiomqtt.MqttError) -> bool:
    """Return True if no process listened at the address."""
    return isinstance(error.__cause__ or error.__context__, ConnectionRefusedError)


def _explain_cause(url: BrokerUrl, error: aiomqtt.MqttError) -> SecureflError:
    # aiomqtt raises "from None", which hides the context but keeps it.
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ConfigError(
            "broker.ca_file",
            f"the certificate of {url} is not trusted: {cause.verify_message}",
            "give the CA that signed it, and the host name in the certificate",
        )
    if isinstance(cause, ssl.SSLError):
        return ConfigError(
            "broker",
            f"cannot connect to {url} with TLS: {cause.reason or cause}",
            "check that it is a TLS port, and the client certificate",
        )
    if isinstance(cause, OSError):
        return RunAbortedError(
            f"cannot reach the broker {url}: {_why(cause)}; check that it is running, and the host and port"
        )
    return RunAbortedError(f"the broker {url} does not answer: {error}")


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, TimeoutError):
        return "no answer"
    return (error.strerror or str(error)).lower()
