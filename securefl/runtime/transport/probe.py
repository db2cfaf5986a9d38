"""Probing the largest frame: the broker is asked by sending one to ourselves.

MQTT 3.1.1 has no way to announce a size limit. A broker that has one drops the frame in silence (mosquitto's
``message_size_limit``) or closes the connection (``max_packet_size``), so the only honest test is a round
trip.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from cryptography import x509
from cryptography.x509.oid import NameOID

from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.runtime.transport.addresses import Brokers, as_brokers, none_of
from securefl.runtime.transport.base import ArrivedFrame, BrokerUrl, MqttLimits, Transport
from securefl.runtime.transport.mqtt import MqttTransport

ResultT = TypeVar("ResultT")

WANTED = 512 * 1024
"""The largest frame securefl sends, in bytes."""

_FEW = 32
"""Bytes that every broker takes."""

SMALLEST = 16 * 1024
"""The smallest limit securefl can work with, in bytes."""

_HASTY: Final = dataclasses.replace(MqttLimits(), settled=0.0)
"""A broker that answers a large frame by hanging up must not be taken for one that is gone."""


async def probe_frame_limit(
    transport: Transport,
    topic: str,
    *,
    wanted: int = WANTED,
    within: float = 5.0,
    aside: Callable[[ArrivedFrame], None] | None = None,
) -> int:
    """Return the largest of ``wanted``, ``wanted / 2``, ... bytes, at least 16 KiB, that comes back.

    ``topic`` must be subscribed to by ``transport`` itself and written to by nobody else. ``within``
    (seconds) bounds the wait for one size. Other frames that arrive meanwhile are handed to ``aside``.

    Raises:
        ConfigError: the broker returns no frame at all, as one does whose access rules know us by another
            name; or not even the smallest that we can work with.
        TransportClosedError: the transport was closed.
        RunAbortedError: the broker stayed out of reach.
    """
    # Whoever may not use the topic is dropped in silence, too, at every size: a few bytes tell these apart.
    if not await _returns(transport, topic, _FEW, 2 * within, aside):
        name = topic.rsplit("/", 1)[-1]
        raise ConfigError(
            "broker",
            f"nothing comes back that is sent to {topic}: the access rules know this process by another name",
            f"the common name of its certificate, or its user, must be {name!r}",
        )
    size = wanted
    while size >= SMALLEST:
        if await _returns(transport, topic, size, within, aside):
            return size
        size //= 2
    reason = f"the broker returns no frame of {SMALLEST // 1024} KiB on {topic}"
    raise ConfigError("broker", reason, "raise its message size limit")


async def measure_frame_limit(
    brokers: BrokerUrl | Brokers, client_id: str, topic: str, *, wanted: int = WANTED, within: float = 5.0
) -> int:
    """`probe_frame_limit` on a connection of its own, ``<client_id>-probe``, free of other frames.

    Of several brokers the smallest limit counts; those out of reach are left out.

    Raises:
        ConfigError: one of them refuses us, or returns no frame at all.
        RunAbortedError: none is in reach.
    """

    async def measure(url: BrokerUrl) -> int:
        transport = await MqttTransport.connect(url, f"{client_id}-probe", (topic,), limits=_HASTY)
        try:
            return await probe_frame_limit(transport, topic, wanted=wanted, within=within)
        finally:
            await transport.close()

    return min(await _at_each(as_brokers(brokers), measure))


async def check_retention(
    brokers: BrokerUrl | Brokers, client_id: str, topic: str, *, within: float = 5.0
) -> None:
    """Make sure that brokers keep a retained frame for those who come later: how a run ends is one.

    Like a size limit this can only be tried: MQTT 3.1.1 has no way to announce it, and a broker that is told
    to keep nothing hangs up. ``topic`` is the client's own probe topic; nothing stays there.

    Raises:
        ConfigError: one does not, or it refuses us.
        RunAbortedError: none is in reach.
    """
    await _at_each(as_brokers(brokers), lambda url: _check_retention(url, client_id, topic, within))


async def _check_retention(url: BrokerUrl, client_id: str, topic: str, within: float) -> None:
    payload = secrets.token_bytes(16)
    transport = await MqttTransport.connect(url, f"{client_id}-keeps", (), limits=_HASTY)
    try:
        async with asyncio.timeout(within):
            await transport.publish(topic, payload, retain=True)
            later = await MqttTransport.connect(url, f"{client_id}-later", (topic,), limits=_HASTY)
            try:
                await _until(later, ArrivedFrame(topic, payload), None)
                await transport.publish(topic, b"", retain=True)
                # With it whatever was under way has come: amqtt gives a retained frame twice.
                await _until(later, ArrivedFrame(topic, b""), None)
            finally:
                await later.close()
    except TimeoutError:
        reason = f"{url} keeps no retained messages, by which whoever comes late learns how a run has ended"
        raise ConfigError("broker", reason, "in mosquitto.conf: retain_available true") from None
    finally:
        await transport.close()


def user_of(url: BrokerUrl) -> str | None:
    """The name by which a broker's access rules know this client: its certificate's, or its user's.

    Raises:
        ConfigError: the certificate cannot be read.
    """
    if url.cert_file is None:
        return url.username
    try:
        certificate = x509.load_pem_x509_certificate(url.cert_file.read_bytes())
    except (OSError, ValueError):
        raise ConfigError("cert_file", f"{url.cert_file} is no PEM certificate", "check the file") from None
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else None


async def _at_each(brokers: Brokers, probe: Callable[[BrokerUrl], Awaitable[ResultT]]) -> list[ResultT]:
    """Probe all at the same time, and pass over those out of reach: what they refuse, they refuse now."""
    tried = await asyncio.gather(*map(probe, brokers), return_exceptions=True)
    troubles, found = dict[BrokerUrl, SecureflError](), list[ResultT]()
    for url, result in zip(brokers, tried, strict=True):
        if isinstance(result, RunAbortedError):
            troubles[url] = result
        elif isinstance(result, BaseException):
            raise result
        else:
            found.append(result)
    if not found:
        raise none_of(troubles)
    return found


async def _returns(
    transport: Transport, topic: str, size: int, within: float, aside: Callable[[ArrivedFrame], None] | None
) -> bool:
    payload = secrets.token_bytes(size)
    try:
        async with asyncio.timeout(within):
            await transport.publish(topic, payload)
            await _until(transport, ArrivedFrame(topic, payload), aside)
    except TimeoutError:
        return False
    return True


async def _until(
    transport: Transport, wanted: ArrivedFrame, aside: Callable[[ArrivedFrame], None] | None
) -> None:
    while (delivery := await transport.receive()) != wanted:
        if aside is not None and delivery.topic != wanted.topic:
            aside(delivery)
