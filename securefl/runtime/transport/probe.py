"""Tests of brokers before a run."""

import asyncio
import dataclasses
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from cryptography import x509
from cryptography.x509.oid import NameOID

from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.runtime.transport import addresses, base, message_limit
from securefl.runtime.transport.broker_connection import Reach
from securefl.runtime.transport.mqtt import MqttTransport

ResultT = TypeVar("ResultT")

_HASTY: Final = dataclasses.replace(base.MqttLimits(), settled=0.0)
"""A close on a large frame must not count as a loss."""


async def measure_frame_limit(
    brokers: base.BrokerUrl | addresses.Brokers,
    client_id: str,
    topic: str,
    *,
    wanted: int = message_limit.WANTED,
    within: float = 5.0,
) -> int:
    """Return the largest of ``wanted``, ``wanted / 2``, ... bytes, at least 16 KiB, that all brokers carry.

    Each is measured over a separate connection, unreachable ones are left out. ``within`` (seconds) bounds
    the wait for one answer.

    Raises:
        ConfigError: one of the brokers refuses this client, or carries too little.
        RunAbortedError: none is in reach.
    """

    async def measure(url: base.BrokerUrl) -> int:
        reach = Reach(
            addresses.as_brokers(url), client_id, None, dataclasses.replace(_HASTY, patience=within)
        )
        limit = reach.limit_at(0, topic, wanted)
        try:
            await limit.check()
            return await limit.largest()
        except message_limit.ProbeError as error:
            raise error.reason from None

    return min(await _at_each(addresses.as_brokers(brokers), measure))


async def check_retention(
    brokers: base.BrokerUrl | addresses.Brokers, client_id: str, topic: str, *, within: float = 5.0
) -> None:
    """Check that brokers retain frames for later subscribers, as the end of a run needs.

    A broker without retention closes the connection. ``topic`` is the client's own probe topic; nothing stays
    there.

    Raises:
        ConfigError: a broker does not retain frames, or refuses this client.
        RunAbortedError: none is in reach.
    """
    await _at_each(addresses.as_brokers(brokers), lambda url: _check_retention(url, client_id, topic, within))


async def _check_retention(url: base.BrokerUrl, client_id: str, topic: str, within: float) -> None:
    payload = secrets.token_bytes(16)
    transport = await MqttTransport.connect(url, f"{client_id}-keeps", (), limits=_HASTY)
    try:
        async with asyncio.timeout(within):
            await transport.publish(topic, payload, retain=True)
            later = await MqttTransport.connect(url, f"{client_id}-later", (topic,), limits=_HASTY)
            try:
                await _until(later, base.ArrivedFrame(topic, payload))
                await transport.publish(topic, b"", retain=True)
                # All pending frames have arrived: amqtt delivers a retained frame twice.
                await _until(later, base.ArrivedFrame(topic, b""))
            finally:
                await later.close()
    except TimeoutError:
        reason = f"{url} keeps no retained messages, which late parties need"
        raise ConfigError("broker", reason, "in mosquitto.conf: retain_available true") from None
    finally:
        await transport.close()


def user_of(url: base.BrokerUrl) -> str | None:
    """Return the client's name in a broker's access rules: its certificate's, or its user's.

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


async def _at_each(
    brokers: addresses.Brokers, probe: Callable[[base.BrokerUrl], Awaitable[ResultT]]
) -> list[ResultT]:
    """Probe all brokers concurrently, ignoring unreachable ones; raise refusals."""
    tried = await asyncio.gather(*map(probe, brokers), return_exceptions=True)
    troubles, found = dict[base.BrokerUrl, SecureflError](), list[ResultT]()
    for url, result in zip(brokers, tried, strict=True):
        if isinstance(result, RunAbortedError):
            troubles[url] = result
        elif isinstance(result, BaseException):
            raise result
        else:
            found.append(result)
    if not found:
        raise addresses.none_of(troubles)
    return found


async def _until(transport: base.Transport, wanted: base.ArrivedFrame) -> None:
    while await transport.receive() != wanted:
        continue
