"""Addresses of brokers, in the order of attempts (ADR 0055), and client ids.

A broker closes a client's connection when another client takes its id, and mosquitto accepts any id from any
certificate: with a predictable id every party could disconnect the server. So the id ends with a code made
with the connection's private key or password, stable over restarts for the broker to find the session.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from securefl.base.errors import ConfigError, RunAbortedError, SecureflError, UsageError
from securefl.runtime.transport import base
from securefl.runtime.transport.base import BrokerUrl

_HINT: Final = "; check that it is running, and the host and port"


@dataclass(frozen=True, slots=True)
class Brokers:
    """Brokers in the order of attempts. ``str`` shows no password."""

    urls: tuple[base.BrokerUrl, ...]

    def __post_init__(self) -> None:
        if not self.urls:
            raise UsageError("urls must have at least 1 broker, found none")

    def __iter__(self) -> Iterator[base.BrokerUrl]:
        return iter(self.urls)

    def __len__(self) -> int:
        return len(self.urls)

    def __str__(self) -> str:
        return ", ".join(map(str, self.urls))

    def each(self, change: Callable[[base.BrokerUrl], base.BrokerUrl]) -> Brokers:
        """Return the same brokers with changed addresses."""
        return Brokers(tuple(change(url) for url in self.urls))


def as_brokers(one_or_more: base.BrokerUrl | Brokers) -> Brokers:
    """Return a single broker as a list of one."""
    return one_or_more if isinstance(one_or_more, Brokers) else Brokers((one_or_more,))


def parse_brokers(
    text: str,
    *,
    password: str | None = None,
    **files: str | os.PathLike[str] | None,
) -> Brokers:
    """Parse comma-separated addresses, each as :func:`parse_broker_url` does.

    Files and password apply to all; so does a user name that only the first address has. A comma in a URL's
    password is ``%2C``.

    Raises:
        ConfigError: an address is not a URL, does not fit the files, or is listed twice.
    """
    parts = [part.strip() for part in text.split(",")]
    urls = list[base.BrokerUrl]()
    for number, part in enumerate(parts, 1):
        where = "broker" if len(parts) == 1 else f"broker: address {number} of {len(parts)}"
        first = urls[0] if urls else None
        inherits = first is not None and first.username is not None and "@" not in part
        url = base.parse_broker_url(
            part,
            username=first.username if first is not None and inherits else None,
            password=first.password if first is not None and inherits else password,
            field=where,
            **files,
        )
        if any((url.host, url.port) == (other.host, other.port) for other in urls):
            raise ConfigError(where, f"{url} is listed twice", "name each broker once")
        urls.append(url)
    return Brokers(tuple(urls))


def none_of(troubles: Mapping[base.BrokerUrl, SecureflError]) -> SecureflError:
    """Return one error for brokers that all failed: a ``ConfigError`` if all refuse this process.

    Otherwise it is an abort, as unreachable brokers may return.
    """
    errors = tuple(troubles.values())
    if len(errors) == 1:
        return errors[0]
    reasons = "; ".join(_brief(error) for error in errors)
    if all(isinstance(error, ConfigError) for error in errors):
        return ConfigError(
            "broker",
            f"all {len(errors)} brokers reject this process: {reasons}",
            "check the URLs, user names and passwords",
        )
    return RunAbortedError(f"none of the {len(errors)} brokers can be used: {reasons}")


def _brief(error: SecureflError) -> str:
    return error.reason if isinstance(error, ConfigError) else str(error).removesuffix(_HINT)


_LABEL: Final = b"securefl mqtt client id\0"
_CODE_CHARACTERS: Final = 32
"""128 bits in hex."""


def bound_client_id(client_id: str, url: BrokerUrl) -> str:
    """Return ``client_id`` with the code of the credentials in ``url``, if any.

    The result is a secret of the connection: never log or show it.

    Raises:
        ConfigError: the private key cannot be read.
    """
    secret = _secret(url)
    if secret is None:
        return client_id
    code = hmac.new(secret, _LABEL + client_id.encode(), hashlib.sha256).hexdigest()
    return f"{client_id}-{code[:_CODE_CHARACTERS]}"


def _secret(url: BrokerUrl) -> bytes | None:
    if url.key_file is not None:
        try:
            return hashlib.sha256(url.key_file.read_bytes()).digest()
        except OSError as error:
            raise ConfigError(
                "key_file",
                f"{url.key_file} cannot be read: {error.strerror}",
                "name a key file that you may read",
            ) from error
    if url.password:
        # Slow: readers of the broker's log see the id and could test passwords against it.
        salt = _LABEL + (url.username or "").encode()
        return hashlib.scrypt(url.password.encode(), salt=salt, n=2**14, r=8, p=1)
    return None
