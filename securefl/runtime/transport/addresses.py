"""Addresses of brokers: one, or several of which a process uses the first that takes it.

Several brokers of a run need not know of each other. What one of them keeps (sessions, frames under way,
retained frames) is lost to a process that goes on at another one, and is sent again there.

MQTT client ids that belong to the credentials of their connection.

A broker ends the connection of a client when another one takes its id. mosquitto takes any id from any
certificate, so that ids which all know (``RUN-server``) would let every party end the server's connection.
Here an id goes on with a code that only the holder of the connection's private key, or password, can compute.
It is the same after a restart, so that the broker finds the session, and differs by run and connection.
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
    """Brokers in the order in which they are tried. ``str`` names them all and shows no password."""

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
        """The same brokers, their addresses changed."""
        return Brokers(tuple(change(url) for url in self.urls))


def as_brokers(one_or_more: base.BrokerUrl | Brokers) -> Brokers:
    """A single broker as a list of one."""
    return one_or_more if isinstance(one_or_more, Brokers) else Brokers((one_or_more,))


def parse_brokers(
    text: str,
    *,
    password: str | None = None,
    **files: str | os.PathLike[str] | None,
) -> Brokers:
    """Read addresses as :func:`parse_broker_url` reads one, with commas between them.

    Files and password count for all of them; a user that only the first names, too. A comma in a URL's own
    password is written ``%2C``.

    Raises:
        ConfigError: one of them is no URL, does not fit the files, or stands twice; says which.
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
    """The one error for brokers none of which takes a process: the only one's own, or all in one line.

    A refusal if all of them refuse; otherwise whoever is out of reach may come back.
    """
    errors = tuple(troubles.values())
    if len(errors) == 1:
        return errors[0]
    told = "; ".join(_brief(error) for error in errors)
    if all(isinstance(error, ConfigError) for error in errors):
        return ConfigError(
            "broker",
            f"all {len(errors)} brokers reject this process: {told}",
            "check the URLs, user names and passwords",
        )
    return RunAbortedError(f"none of the {len(errors)} brokers can be used: {told}")


def _brief(error: SecureflError) -> str:
    return error.reason if isinstance(error, ConfigError) else str(error).removesuffix(_HINT)


_LABEL: Final = b"securefl mqtt client id\0"
_CODE_CHARACTERS: Final = 32
"""128 bits in hex."""


def bound_client_id(client_id: str, url: BrokerUrl) -> str:
    """Return ``client_id`` with the code of the credentials in ``url``; as it is if there are none.

    The result is a secret of the connection: it belongs in no message and no log.

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
        # Slow on purpose: who reads the broker's log sees the id, and could try passwords against it.
        salt = _LABEL + (url.username or "").encode()
        return hashlib.scrypt(url.password.encode(), salt=salt, n=2**14, r=8, p=1)
    return None
